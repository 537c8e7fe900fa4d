"""A kernel's C++ file around its assembled body, by what the kernel's own parameters say."""

from __future__ import annotations

from pypto_build.pto.wrapper import Passed, launched, write_wrapper

from .ir import IrFunction
from .signature import GM_PIPE_BUFFER, LAUNCH_IDS, KernelSignature, context_name, signature_of
from .vintages import TODAY, ApiVintage


def generate_wrapper(function: IrFunction, body: str, vintage: ApiVintage = TODAY) -> str:
    """Return the text of `kernels/<core>/<name>.cpp`; `body` is the assembled body of the kernel's unit."""
    # On both vector cores of a group, get_subblockid() has to tell them apart.
    bridge = function.core == "aiv" and bool(function.group) and function.split >= 0
    return write_wrapper(function.name, body, passed_to(signature_of(function)), vintage.tensor, bridge=bridge)


def passed_to(signature: KernelSignature) -> tuple[Passed, ...]:
    """Return the arguments of `kernel_entry`: `args[]` has all tensors, then all numbers, as declared."""
    by_block = "get_block_idx" in signature.launch_ids
    first = len(signature.tensors)
    last = first + len(signature.scalars)
    return (
        *(
            Passed("tensor", p.name, p.type.dtype.cpp, slot, shared=by_block and p.name == GM_PIPE_BUFFER)
            for slot, p in enumerate(signature.tensors)
        ),
        *(Passed("scalar", p.name, p.type.dtype.cpp, slot) for slot, p in enumerate(signature.scalars, first)),
        *(Passed("context", context_name(p.name), "int64_t", slot) for slot, p in enumerate(signature.contexts, last)),
        *(
            Passed("extent", name, "int64_t", value=f"static_cast<int64_t>({param.name}_tensor->shapes[{axis}])")
            for name, param, axis in signature.extents
        ),
        *(launched(LAUNCH_IDS[name]) for name in signature.launch_ids),
    )
