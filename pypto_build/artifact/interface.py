"""``interface.json`` (schema 1): all facts about an artifact that a replay needs, without reading any C++."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pypto_build.facts.dtypes import ITEMSIZE

from .errors import ArtifactError
from .files import decode_json, read_bytes, read_source
from .manifest import portable_path
from .records import (
    CORE_TYPES,
    FILE_NAME,
    LARGEST_NUMBER,
    ArgDirection,
    Artifact,
    Kernel,
    Orchestration,
    Signature,
    kernel_binary,
    orchestration_binary,
)
from .shapes import fits_memory
from .vintage import detect_vintage

if TYPE_CHECKING:
    from .derive import Derived

from typing import TYPE_CHECKING

from .records import MetaParam
from .shapes import Extent

if TYPE_CHECKING:
    from .derive import Argument, Derived


# The entry's parameters as one table: declared names and types where the compiler left them, the code's otherwise.


class Param(msgspec.Struct, frozen=True):
    """One parameter of the entry; ``index`` counts among its kind (``orch_args.tensor(index)``, ``.scalar(index)``).

    ``direction`` is null for a scalar. It is also null for a written tensor if nothing declares whether the run reads
    its old content. The snapshot decides then: a pure output has no file in ``data/in``.
    """

    name: str
    kind: str
    index: int
    direction: str | None
    dtype: str | None
    shape: tuple[Extent, ...] | None

    def fits(self, shape: Sequence[int]) -> bool:
        """Return whether a tensor of ``shape`` may be passed; -1 stands for any size, no shape for any."""
        if self.shape is None:
            return True
        return len(shape) == len(self.shape) and all(
            extent in (-1, size) for extent, size in zip(self.shape, shape, strict=True)
        )


def parameters(artifact: Artifact, derived: Derived) -> tuple[Param, ...]:
    """Return all tensors, then all scalars.

    Names, types and shapes come from ``compiled_meta.json``, else from the variables of the code. Directions come from
    the manifest, else from ``compiled_meta.json``, else from the code. The number of parameters is declared as well;
    the run reports code that reads more.
    """
    meta = artifact.meta
    tensors = _table("tensor", derived.tensors, meta.tensors if meta else None, artifact.orchestration.signature or ())
    scalars = _table("scalar", derived.scalars, meta.scalars if meta else None, ())
    return _distinct((*tensors, *scalars))


def orchestration_signature(params: Sequence[Param]) -> Signature:
    """Return the directions of the tensor parameters, in ``tensor(i)`` order; INOUT, which is always safe, if
    unknown.
    """
    return tuple(ArgDirection[p.direction or "INOUT"] for p in params if p.kind == "tensor")


def _table(
    kind: str, used: Sequence[Argument], declared: Sequence[MetaParam] | None, signature: Signature
) -> tuple[Param, ...]:
    rows: list[Param] = []
    for index in range(max(len(used) if declared is None else len(declared), len(signature))):
        argument = used[index] if index < len(used) else None
        param = declared[index] if declared and index < len(declared) else None
        name = param.name if param else argument.name if argument else ""
        rows.append(
            Param(
                name=name or f"{kind}{index}",
                kind=kind,
                index=index,
                direction=_direction(index, argument, param, signature) if kind == "tensor" else None,
                dtype=_dtype(argument, param),
                shape=param.shape if param else None,
            )
        )
    return tuple(rows)


def _dtype(argument: Argument | None, declared: MetaParam | None) -> str | None:
    """Return the declared element type, else the type that the code reads; None if the data decides."""
    if declared is not None and (declared.dtype or declared.kind):
        return declared.dtype
    return argument.dtype if argument else None


def _direction(index: int, argument: Argument | None, declared: MetaParam | None, signature: Signature) -> str | None:
    """Return the declared direction of a tensor, else the direction of its uses in the code; IN for an unused
    tensor.
    """
    if index < len(signature):
        return signature[index].name
    if declared is not None:
        return declared.direction.name
    used = argument.direction if argument is not None else ArgDirection.IN
    return None if used is ArgDirection.INOUT else used.name


def _distinct(rows: tuple[Param, ...]) -> tuple[Param, ...]:
    """Return the parameters with unique names, since names are file names of the snapshot."""
    seen: set[str] = set()
    result: list[Param] = []
    for row in rows:
        name, count = row.name, 2
        while name in seen:
            name, count = f"{row.name}_{count}", count + 1
        seen.add(name)
        result.append(row if name == row.name else msgspec.structs.replace(row, name=name))
    return tuple(result)


INTERFACE_SCHEMA = 1
_BUILD_AGAIN = "build the artifact again"


class OrchestrationInterface(msgspec.Struct, frozen=True):
    """The orchestration; ``source`` is as in `KernelInterface`."""

    function_name: str
    config_name: str
    source: str

    @property
    def binary(self) -> str:
        """Return the path of the orchestration's binary below OUT, without a suffix."""
        return orchestration_binary(self.source)


class KernelInterface(msgspec.Struct, frozen=True):
    """One kernel; ``signature`` is null if it is never submitted.

    ``source`` is relative to the artifact, also for an external file (`portable_path`); absolute if the paths share no
    directory.
    """

    func_id: int
    name: str
    core_type: str
    source: str
    signature: tuple[str, ...] | None

    @property
    def binary(self) -> str:
        """Return the path of the kernel's binary below OUT, without a suffix."""
        return kernel_binary(self.core_type, self.name)


class Interface(msgspec.Struct, frozen=True):
    """The document; field order is the order in the file.

    ``parameter_order`` is for artifacts with one array for all parameters (until 2026-03-28): ``t`` for a tensor, ``s``
    for a scalar, ``-`` for an unread slot. It is empty where tensors and scalars are apart.
    """

    schema: int
    artifact: str
    vintage: str
    orchestration: OrchestrationInterface
    params: tuple[Param, ...]
    kernels: tuple[KernelInterface, ...]
    block_dim: int | None
    aicpu_thread_num: int | None
    runtime: str
    notes: tuple[str, ...] = ()
    parameter_order: str = ""


class Signed(msgspec.Struct, frozen=True):
    """An artifact with all signatures that its code reveals, and its interface."""

    artifact: Artifact
    interface: Interface


def sign(artifact: Artifact) -> Signed:
    """Complete the signatures of ``artifact`` from its orchestration; declared signatures stay."""
    from .derive import derive  # loads tree-sitter, which a replay that only reads the document does without

    source = artifact.orchestration.source
    vintage = detect_vintage(read_source(source), source)
    derived = derive(artifact)
    params = parameters(artifact, derived)
    kernels = tuple(_with_signature(kernel, derived) for kernel in artifact.kernels)
    orchestration = msgspec.structs.replace(artifact.orchestration, signature=orchestration_signature(params))
    signed = msgspec.structs.replace(artifact, kernels=kernels, orchestration=orchestration)
    config = artifact.runtime_config
    notes = (*derived.notes, *_contradictions(artifact, derived))
    interface = Interface(
        schema=INTERFACE_SCHEMA,
        artifact=artifact.name,
        vintage=vintage.name,
        orchestration=_orchestration(orchestration, artifact.root),
        params=params,
        kernels=tuple(_kernel(kernel, artifact.root) for kernel in kernels),
        block_dim=config.get("block_dim"),
        aicpu_thread_num=config.get("aicpu_thread_num"),
        runtime=artifact.runtime,
        notes=tuple(note.replace(f"{artifact.root}/", "") for note in notes),
        parameter_order=derived.order,
    )
    return Signed(signed, interface)


def encode_interface(interface: Interface) -> bytes:
    """Return the bytes of ``interface.json``: indented, one trailing newline, the same for the same interface."""
    return msgspec.json.format(msgspec.json.encode(interface), indent=1) + b"\n"


def read_interface(path: Path) -> Interface:
    """Read ``interface.json``. Raises a usage error if the file is missing or of another schema."""
    try:
        interface, wrong = _decoded(read_bytes(path))
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", "build the artifact first") from None
    except msgspec.MsgspecError as error:
        raise ArtifactError(path, f"is not a valid interface.json: {error}", _BUILD_AGAIN) from None
    if interface.schema != INTERFACE_SCHEMA:
        raise ArtifactError(
            path,
            f"schema: version {interface.schema} is not supported, only {INTERFACE_SCHEMA}",
            "build the artifact again",
        )
    if wrong:
        raise ArtifactError(path, f"is not a valid interface.json: {wrong}", _BUILD_AGAIN)
    return interface


@lru_cache(maxsize=1)  # a preforked process and its children read it again
def _decoded(data: bytes) -> tuple[Interface, str]:
    """Return the document and the text of its fault, which is empty for a valid document."""
    interface = decode_json(data, Interface)
    return interface, _fault(interface) if interface.schema == INTERFACE_SCHEMA else ""


def _fault(interface: Interface) -> str:
    """Return the first difference from a document that `sign` writes; empty if there is none."""
    for field, value in (
        ("orchestration.function_name", interface.orchestration.function_name),
        ("orchestration.config_name", interface.orchestration.config_name),
    ):
        if not value.isidentifier():
            return f"{field}: {value!r} is not a C++ function name"
    for name, smallest in (("block_dim", 1), ("aicpu_thread_num", 0)):
        number = getattr(interface, name)
        if number is not None and not smallest <= number <= LARGEST_NUMBER:
            return f"{name}: {number} is not a number of {smallest} or more"
    if set(interface.parameter_order) - set("ts-"):
        return f"parameter_order: {interface.parameter_order!r} has more than t, s and -"
    return _param_fault(interface.params) or _kernel_fault(interface.kernels)


def _param_fault(params: Sequence[Param]) -> str:
    following = {"tensor": 0, "scalar": 0}
    for position, param in enumerate(params):
        field = f"params[{position}]"
        if param.kind not in following:
            return f"{field}.kind: {param.kind!r} is neither 'tensor' nor 'scalar'"
        if param.index != following[param.kind]:
            return f"{field}.index: {param.index} is not {following[param.kind]}, which follows"
        following[param.kind] += 1
        if param.name in ("", ".", "..") or "/" in param.name or "\0" in param.name:
            return f"{field}.name: {param.name!r} is not a valid parameter name"
        if param.direction not in (None, "IN", "OUT", "INOUT"):
            return f"{field}.direction: unknown {param.direction!r}"
        if param.dtype is not None and param.dtype not in ITEMSIZE:
            return f"{field}.dtype: unknown {param.dtype!r}"
        if param.shape is not None and not fits_memory(param.shape):
            return f"{field}.shape: {list(param.shape)} does not fit into memory"
    names = [param.name for param in params]
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    return "" if twice is None else f"params: {twice!r} is there twice"


def _kernel_fault(kernels: Sequence[KernelInterface]) -> str:
    seen: set[int] = set()
    for position, kernel in enumerate(kernels):
        field = f"kernels[{position}]"
        if not 0 <= kernel.func_id <= LARGEST_NUMBER:
            return f"{field}.func_id: {kernel.func_id} is not a number of 0 or more"
        if kernel.func_id in seen:
            return f"{field}.func_id: {kernel.func_id} is there twice"
        seen.add(kernel.func_id)
        if kernel.core_type not in CORE_TYPES:
            return f"{field}.core_type: unknown core type {kernel.core_type!r}"
        if not FILE_NAME.match(kernel.name):
            return f"{field}.name: {kernel.name!r} cannot name a kernel"
        wrong = next((word for word in kernel.signature or () if word not in ArgDirection.__members__), None)
        if wrong is not None:
            return f"{field}.signature: unknown {wrong!r}"
    return ""


def relative_source(source: Path, root: Path) -> str:
    """Return ``source`` relative to the artifact, or as an absolute path if it lies elsewhere."""
    return source.relative_to(root).as_posix() if source.is_relative_to(root) else str(source)


def _with_signature(kernel: Kernel, derived: Derived) -> Kernel:
    """Return the kernel with its declared signature; with the signature from the code if the number of tensors
    differs.
    """
    submitted = derived.signatures.get(kernel.func_id)
    if kernel.signature is not None and (submitted is None or len(submitted) == len(kernel.signature)):
        return kernel
    return msgspec.structs.replace(kernel, signature=submitted)


def _contradictions(artifact: Artifact, derived: Derived) -> Iterator[str]:
    """Yield a message for each kernel whose declared directions differ from those in the code."""
    for kernel in artifact.kernels:
        submitted = derived.signatures.get(kernel.func_id)
        if kernel.signature is None or submitted is None:
            continue
        untracked = derived.untracked.get(kernel.func_id, frozenset())
        pairs = list(zip(kernel.signature, submitted, strict=False))
        same = all(one == other or position in untracked for position, (one, other) in enumerate(pairs))
        if same and len(kernel.signature) == len(submitted):
            continue
        declared, passed = (", ".join(_names(signature) or ()) for signature in (kernel.signature, submitted))
        yield f"kernel_config.py: the signature of '{kernel.name}' is [{declared}], the orchestration passes [{passed}]"


def _orchestration(orchestration: Orchestration, root: Path) -> OrchestrationInterface:
    return OrchestrationInterface(
        orchestration.function_name, orchestration.config_name, portable_path(orchestration.source, root)
    )


def _kernel(kernel: Kernel, root: Path) -> KernelInterface:
    return KernelInterface(
        func_id=kernel.func_id,
        name=kernel.name,
        core_type=kernel.core_type,
        source=portable_path(kernel.source, root),
        signature=_names(kernel.signature),
    )


def _names(signature: Signature | None) -> tuple[str, ...] | None:
    return None if signature is None else tuple(direction.name for direction in signature)
