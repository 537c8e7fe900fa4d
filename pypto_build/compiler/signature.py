"""In what order a kernel takes its arguments: tensors, numbers, the contexts of tensors in windows, dynamic extents,
then what the launch tells it.

The .pto function, the wrapper's unpacking and the orchestration's `add_*` calls all follow this one order.
"""

from __future__ import annotations

from dataclasses import dataclass

from .ir import IrFunction, ScalarParam, TensorParam
from .values import Ref

GM_PIPE_BUFFER = "__gm_pipe_buffer"
LAUNCH_IDS = {
    "get_block_idx": "__pypto_spmd_block_idx",
    "get_block_num": "__pypto_spmd_block_num",
    "get_subblock_idx": "__pypto_spmd_subblock_idx",
}


def context_name(window: str) -> str:
    """The argument that tells a kernel the ranks of a tensor in a window."""
    return f"{window}__ctx"


@dataclass(frozen=True)
class KernelSignature:
    """`contexts` has the tensors in windows, each with a context. `extents` has, for each dynamic extent,
    the parameter and axis it is read from; `launch_ids` the operations whose values are passed."""

    tensors: tuple[TensorParam, ...]
    scalars: tuple[ScalarParam, ...]
    contexts: tuple[TensorParam, ...]
    extents: tuple[tuple[str, TensorParam, int], ...]
    launch_ids: tuple[str, ...]


def signature_of(function: IrFunction) -> KernelSignature:
    extents: dict[str, tuple[str, TensorParam, int]] = {}
    for param in function.tensors():
        for axis, extent in enumerate(param.type.shape):
            if isinstance(extent, Ref):
                extents.setdefault(extent.name, (extent.name, param, axis))
    used = {op.name for op in function.body.walk()}
    # each block of a launched group has its own part of the pipe's buffer, so both members have to know theirs
    block = bool(used & {"get_block_idx", "get_block_num"}) or (function.spmd and function.pipe is not None)
    ids = [n for n in ("get_block_idx", "get_block_num") if block] + ["get_subblock_idx"] * ("get_subblock_idx" in used)
    return KernelSignature(
        function.tensors(), function.scalars(), function.windows(), tuple(extents.values()), tuple(ids)
    )
