"""Binding: which bytes each parameter of the orchestration gets, decided and checked before anything runs.

Inputs come from the snapshot's `in/`, goldens from its `out/`; without `in/` the inputs are seeded and the replay is
`unchecked`. Every fault of the data is an `ArtifactError` of kind `golden_error` that names the file and the way out.
No numpy on this path: it would cost more than the rest of the start.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.interface import Interface
from pypto_build.artifact.params import Param
from pypto_build.artifact.pt import PtTensor, read_pt
from pypto_build.artifact.snapshot import Snapshot, require_goldens
from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.replay.scalars import Scalar, natural_dtype, scalar_bits, scalar_value

Shape = tuple[int, ...]

_CARRIERS = {"uint16": "int16", "uint32": "int32", "uint64": "int64"}


@dataclass(frozen=True)
class TensorArg:
    """One tensor parameter: `initial` are its bytes before each round (None: zeros), `golden` those after it."""

    name: str
    direction: str
    dtype: str
    shape: Shape
    initial: bytes | memoryview | None = field(default=None, repr=False)
    golden: bytes | memoryview | None = field(default=None, repr=False)

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * ITEMSIZE[self.dtype]

    @property
    def is_output(self) -> bool:
        """Whether it is compared: declared OUT or INOUT, or declared IN although the snapshot has a golden for it."""
        return self.direction != "IN" or self.golden is not None


@dataclass(frozen=True)
class ScalarArg:
    """One scalar parameter and the 64 bits its value is passed as."""

    name: str
    dtype: str
    value: Scalar
    bits: int


@dataclass(frozen=True)
class Binding:
    """All arguments, tensors and scalars each in `orch_args` order. `seed` is set when inputs were made up."""

    tensors: tuple[TensorArg, ...]
    scalars: tuple[ScalarArg, ...]
    seed: int | None
    unknown: tuple[str, ...] = ()

    @property
    def checked(self) -> bool:
        """Whether there is anything to compare with."""
        return self.seed is None and any(tensor.golden is not None for tensor in self.tensors)


def bind(
    interface: Interface,
    data: Snapshot,
    artifact: Path | None = None,
    *,
    seed: int = 0,
    scalars: Mapping[str, Scalar] | None = None,
) -> Binding:
    """The arguments of one replay.

    `scalars` overrides values by name. What neither the interface nor the data tells of shapes is looked for in the
    modules of `artifact`. Raises `ArtifactError`: `golden_error` for the snapshot's faults, `usage_error`
    for an override that does not fit and for a parameter whose shape nothing tells.
    """
    interface = _with_shapes(interface, artifact, data) if artifact else interface
    given = dict(scalars or {})
    names = {param.name for param in interface.params}
    for name in given:
        if all(param.name != name or param.kind != "scalar" for param in interface.params):
            known = ", ".join(param.name for param in interface.params if param.kind == "scalar") or "none"
            raise ArtifactError(f"--scalar {name}", "no such scalar", f"the artifact's scalars: {known}")
    needed = [param.name for param in interface.params if param.name not in given and _needs_input(param, data)]
    seeded = bool(needed) and not data.inputs
    if not seeded:
        _require_inputs(needed, data)
    ordered = sorted(interface.params, key=lambda param: param.index)
    bind_scalar = _seeded_scalar if seeded else _snapshot_scalar
    bound_scalars = tuple(
        _given_scalar(param, given[param.name]) if param.name in given else bind_scalar(param, data)
        for param in ordered
        if param.kind == "scalar"
    )
    parameters = [param for param in ordered if param.kind == "tensor"]
    _require_memory(parameters)
    tensors = tuple(
        _seeded_tensor(param, seed) if seeded else _snapshot_tensor(param, data, parameters) for param in parameters
    )
    unknown = tuple(sorted((set(data.inputs) | set(data.outputs)) - names))
    return Binding(tensors, bound_scalars, seed if seeded else None, unknown)


#: Inputs of so many bytes are used where their file is mapped.
LENT_FROM = 64 << 20


def lent(binding: Binding) -> dict[int, memoryview]:
    """By index, the large inputs that need no copy, since nothing may write to them."""
    return {
        index: tensor.initial
        for index, tensor in enumerate(binding.tensors)
        if isinstance(tensor.initial, memoryview) and not tensor.is_output and tensor.nbytes >= LENT_FROM
    }


def _with_shapes(interface: Interface, artifact: Path, data: Snapshot) -> Interface:
    """The interface with the shapes of tensors that nobody declares and no file tells, if the modules do."""
    told = {*data.inputs, *data.outputs}
    untold = {p.name for p in interface.params if p.kind == "tensor" and p.shape is None and p.name not in told}
    if not untold:
        return interface
    from pypto_build.replay.module_shapes import complete

    return complete(interface, artifact, untold)


def _needs_input(param: Param, data: Snapshot) -> bool:
    """Whether a parameter has a value before the run: all but OUT tensors, and those that look like one."""
    return param.direction != "OUT" and not (
        param.kind == "tensor" and param.direction is None and param.name in data.outputs
    )


def _require_inputs(needed: list[str], data: Snapshot) -> None:
    """All missing input files at once."""
    missing = [name for name in needed if name not in data.inputs]
    if missing:
        raise _golden_error(
            data.root / "in" / f"{missing[0]}.pt",
            f"input missing for {', '.join(missing)}",
            f"the directory has {', '.join(data.inputs)}; save it there, or give another snapshot with DATA=",
        )


def _golden_error(path: Path, message: str, hint: str = "") -> ArtifactError:
    """A fault of a file of the snapshot."""
    return ArtifactError(path, message, hint, kind="golden_error")


def _snapshot_tensor(param: Param, data: Snapshot, params: Sequence[Param]) -> TensorArg:
    """A tensor whose bytes come from the snapshot's files; what the interface leaves open comes from them too."""
    source, golden = data.inputs.get(param.name), data.outputs.get(param.name)
    direction = param.direction or _direction_from_files(source, golden)
    initial = _read(source, param) if source is not None and direction != "OUT" else None
    known = initial
    like = golden or source
    if known is None and like is not None and not _is_settled(param):
        known = _read(like, param)
    dtype, shape = (known.dtype, known.shape) if known else (param.dtype, _shape_like_an_input(param, data, params))
    if dtype is None or shape is None:
        raise _unknown_shape(param)
    return TensorArg(param.name, direction, dtype, shape, initial.contiguous() if initial else None)


def _shape_like_an_input(param: Param, data: Snapshot, params: Sequence[Param]) -> Shape | None:
    """The declared shape; where it leaves sizes open, that of the inputs which are declared like it."""
    if param.shape is None or -1 not in param.shape:
        return param.shape
    alike = [each.name for each in params if each.shape == param.shape and each.name in data.inputs]
    shapes = {read_pt(data.inputs[name], kind="golden_error").shape for name in alike}
    if len(shapes) == 1:
        return shapes.pop()
    raise ArtifactError(
        "compiled_meta.json",
        f"nothing tells the sizes of output '{param.name}', which is declared {list(param.shape)}",
        f"save one of the right shape as {data.root / 'out' / f'{param.name}.pt'}",
    )


def with_goldens(
    binding: Binding, data: Snapshot, *, all_of_them: bool = True, compared: Sequence[str] = ()
) -> Binding:
    """The binding with the golden of every output, as far as there are any.

    `compared` are the outputs that have goldens by what the artifact says; what is no output of its says nothing.
    Raises a `golden_error` for an output whose golden is missing while others have one, unless that is allowed, and for
    a golden of another dtype or shape than the tensor.
    """
    if binding.seed is not None:
        return binding
    if all_of_them:
        outputs = [tensor.name for tensor in binding.tensors if tensor.direction != "IN"]
        require_goldens(data, compared if compared and set(compared) <= set(outputs) else outputs)
    return dataclasses.replace(binding, tensors=tuple(_with_golden(tensor, data) for tensor in binding.tensors))


def _with_golden(tensor: TensorArg, data: Snapshot) -> TensorArg:
    path = data.outputs.get(tensor.name)
    if path is None:
        return tensor
    golden = _as_declared(read_pt(path, kind="golden_error"), tensor.dtype)
    for what, have, want in (("dtype", golden.dtype, tensor.dtype), ("shape", golden.shape, tensor.shape)):
        if have != want:
            message = f"{what} {_text(have)}, but output '{tensor.name}' has {_text(want)}"
            raise _golden_error(path, message, "save the golden again as the program computes it")
    return dataclasses.replace(tensor, golden=golden.contiguous())


def _text(value: str | Shape) -> str:
    return value if isinstance(value, str) else str(list(value))


def _direction_from_files(source: Path | None, golden: Path | None) -> str:
    """An unknown direction: a tensor with a golden is written, one with both files is read and written."""
    if golden is None:
        return "IN"
    return "OUT" if source is None else "INOUT"


def _seeded_tensor(param: Param, seed: int) -> TensorArg:
    """A tensor made from a seed: reproducible, and different for each parameter."""
    shape, dtype = _declared_shape(param), param.dtype
    if shape is None or dtype is None:
        raise _unknown_shape(param)
    direction = param.direction or "INOUT"
    if direction == "OUT":
        return TensorArg(param.name, direction, dtype, shape)
    from pypto_build.replay.seeded import seeded_bytes

    try:
        return TensorArg(param.name, direction, dtype, shape, seeded_bytes(seed, param.name, dtype, shape))
    except (MemoryError, ValueError):  # numpy's limits: bytes, and the number of dimensions
        message = f"there is not enough memory to make up tensor '{param.name}' of shape {list(shape)}"
        raise ArtifactError("compiled_meta.json", message, "give data of that shape with DATA=") from None


def _is_settled(param: Param) -> bool:
    """Whether the interface tells dtype and shape to the last dimension."""
    return param.dtype is not None and param.shape is not None and -1 not in param.shape


def _declared_shape(param: Param) -> Shape | None:
    """The parameter's own shape, dynamic dimensions taken as 1."""
    return None if param.shape is None else tuple(1 if size < 0 else size for size in param.shape)


def _require_memory(parameters: Sequence[Param]) -> None:
    """Raise for tensors that are declared larger than the memory, before anything is made for them."""
    limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for param in parameters:
        size = math.prod(_declared_shape(param) or (0,)) * ITEMSIZE.get(param.dtype or "", 1)
        if size > limit:
            raise ArtifactError(
                "compiled_meta.json",
                f"tensor '{param.name}' is declared {param.dtype}{list(param.shape or ())}, which takes "
                f"{size >> 30:,} GiB of {limit >> 30:,} GiB of memory",
                "correct its shape, or compile again",
            )


def _unknown_shape(param: Param) -> ArtifactError:
    return ArtifactError(
        "compiled_meta.json",
        f"nothing tells the shape and dtype of tensor '{param.name}'",
        "save a snapshot under data/in and data/out, or give one with DATA=",
    )


def _read(path: Path, param: Param) -> PtTensor:
    """The tensor in `path`, checked against what the parameter is declared as."""
    tensor = _as_declared(read_pt(path, kind="golden_error"), param.dtype)
    if param.dtype is not None and tensor.dtype != param.dtype:
        message = f"dtype {tensor.dtype}, but parameter '{param.name}' is {param.dtype}"
        raise _golden_error(path, message, "save it again in that dtype, or compile the artifact anew")
    if not param.fits(tensor.shape):
        message = f"shape {list(tensor.shape)}, but parameter '{param.name}' is {list(param.shape or ())}"
        raise _golden_error(path, message, "save it again in that shape, or compile the artifact anew")
    return tensor


def _as_declared(tensor: PtTensor, dtype: str | None) -> PtTensor:
    """The tensor in its unsigned dtype, if the signed one carries its bits: torch long had no unsigned ones."""
    if dtype is None or tensor.dtype != _CARRIERS.get(dtype):
        return tensor
    return msgspec.structs.replace(tensor, dtype=dtype)


def _snapshot_scalar(param: Param, data: Snapshot) -> ScalarArg:
    path = data.inputs[param.name]
    tensor = read_pt(path, kind="golden_error")
    if math.prod(tensor.shape) != 1 or len(tensor.shape) > 1:
        message = f"shape {list(tensor.shape)}, but parameter '{param.name}' is a scalar"
        raise _golden_error(path, message, "save it as a 0-dim tensor")
    if param.dtype is not None and tensor.dtype != param.dtype:
        message = f"dtype {tensor.dtype}, but scalar '{param.name}' is {param.dtype}"
        raise _golden_error(path, message, "save it again in that dtype")
    try:
        value = scalar_value(bytes(tensor.contiguous()), tensor.dtype)
        return ScalarArg(param.name, tensor.dtype, value, scalar_bits(value, tensor.dtype))
    except ValueError as error:
        raise _golden_error(path, str(error)) from None


def _seeded_scalar(param: Param, data: Snapshot) -> ScalarArg:
    """A scalar without data is one: scalars are sizes, counts and factors, for which random bits make no sense."""
    dtype = param.dtype or "int64"
    return ScalarArg(param.name, dtype, 1, scalar_bits(1, dtype))


def _given_scalar(param: Param, value: Scalar) -> ScalarArg:
    dtype = param.dtype or natural_dtype(value)
    try:
        return ScalarArg(param.name, dtype, value, scalar_bits(value, dtype))
    except ValueError as error:
        raise ArtifactError(f"--scalar {param.name}", str(error)) from None
