"""Binding: decides which bytes each parameter of the orchestration gets, and checks them before anything runs.

Inputs come from the snapshot's `in/`, goldens from its `out/`. Without `in/` the inputs are made from a seed and the
replay is `unchecked`. Every fault of the data is an `ArtifactError` of kind `golden_error` that names the file and the
fix. This path does not import numpy, which would cost more than the rest of the start.
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
from pypto_build.artifact.interface import Interface, Param
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
        """Return whether the tensor is compared: it is declared OUT or INOUT, or declared IN while the snapshot has a
        golden."""
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
        """Return whether any output has a golden to compare with; never for inputs made from a seed."""
        return self.seed is None and any(tensor.golden is not None for tensor in self.tensors)


def bind(
    interface: Interface,
    data: Snapshot,
    artifact: Path | None = None,
    *,
    seed: int = 0,
    scalars: Mapping[str, Scalar] | None = None,
) -> Binding:
    """Return the arguments of one replay.

    `scalars` overrides values by name. Shapes that neither the interface nor the data gives are read from the modules
    of `artifact`. Raises `ArtifactError`: `golden_error` for faults of the snapshot, `usage_error` for an override that
    does not fit and for a parameter without any known shape.
    """
    interface = _with_shapes(interface, artifact, data) if artifact else interface
    values = dict(scalars or {})
    names = {param.name for param in interface.params}
    for name in values:
        if all(param.name != name or param.kind != "scalar" for param in interface.params):
            scalar_names = ", ".join(param.name for param in interface.params if param.kind == "scalar") or "none"
            raise ArtifactError(
                f"--scalar {name}", "the artifact has no such scalar", f"its scalars are {scalar_names}"
            )
    needed = [param.name for param in interface.params if param.name not in values and _needs_input(param, data)]
    seeded = bool(needed) and not data.inputs
    if not seeded:
        _require_inputs(needed, data)
    ordered = sorted(interface.params, key=lambda param: param.index)
    bind_scalar = _seeded_scalar if seeded else _snapshot_scalar
    bound_scalars = tuple(
        _overriding_scalar(param, values[param.name]) if param.name in values else bind_scalar(param, data)
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


#: Inputs of at least this many bytes are used directly from the mapped file, without a copy.
LENT_FROM = 64 << 20


def lent(binding: Binding) -> dict[int, memoryview]:
    """Return the large inputs that are used without a copy, by index; no process may write to them."""
    return {
        index: tensor.initial
        for index, tensor in enumerate(binding.tensors)
        if isinstance(tensor.initial, memoryview) and not tensor.is_output and tensor.nbytes >= LENT_FROM
    }


def _with_shapes(interface: Interface, artifact: Path, data: Snapshot) -> Interface:
    """Return the interface with missing tensor shapes filled in from the modules, if they give them."""
    with_files = {*data.inputs, *data.outputs}
    untold = {p.name for p in interface.params if p.kind == "tensor" and p.shape is None and p.name not in with_files}
    if not untold:
        return interface
    from pypto_build.replay.module_shapes import complete

    return complete(interface, artifact, untold)


def _needs_input(param: Param, data: Snapshot) -> bool:
    """Return whether a parameter needs an initial value. OUT tensors do not, nor do tensors of unknown direction with a
    golden."""
    return param.direction != "OUT" and not (
        param.kind == "tensor" and param.direction is None and param.name in data.outputs
    )


def _require_inputs(needed: list[str], data: Snapshot) -> None:
    """Raise one error for all missing input files."""
    missing = [name for name in needed if name not in data.inputs]
    if missing:
        raise _golden_error(
            data.root / "in" / f"{missing[0]}.pt",
            f"the input file is missing for {', '.join(missing)}",
            f"save it in this directory, which has {', '.join(data.inputs)}; or give other data with DATA=",
        )


def _golden_error(path: Path, message: str, hint: str = "") -> ArtifactError:
    """Return a fault of a file of the snapshot."""
    return ArtifactError(path, message, hint, kind="golden_error")


def _snapshot_tensor(param: Param, data: Snapshot, params: Sequence[Param]) -> TensorArg:
    """Return a tensor whose bytes come from the snapshot's files. Properties that the interface leaves open come from
    them too."""
    source, golden = data.inputs.get(param.name), data.outputs.get(param.name)
    direction = param.direction or _direction_from_files(source, golden)
    initial = _read(source, param) if source is not None and direction != "OUT" else None
    template = initial
    shape_source = golden or source
    if template is None and shape_source is not None and not _is_settled(param):
        template = _read(shape_source, param)
    dtype, shape = (
        (template.dtype, template.shape) if template else (param.dtype, _shape_of_similar_input(param, data, params))
    )
    if dtype is None or shape is None:
        raise _unknown_shape(param)
    return TensorArg(param.name, direction, dtype, shape, initial.contiguous() if initial else None)


def _shape_of_similar_input(param: Param, data: Snapshot, params: Sequence[Param]) -> Shape | None:
    """Return the declared shape; if it leaves sizes open, the shape of the inputs with the same declaration."""
    if param.shape is None or -1 not in param.shape:
        return param.shape
    alike = [each.name for each in params if each.shape == param.shape and each.name in data.inputs]
    shapes = {read_pt(data.inputs[name], kind="golden_error").shape for name in alike}
    if len(shapes) == 1:
        return shapes.pop()
    raise ArtifactError(
        "compiled_meta.json",
        f"the shape of output '{param.name}' is unknown: it is declared as {list(param.shape)}",
        f"save a golden of the right shape as {data.root / 'out' / f'{param.name}.pt'}",
    )


def with_goldens(
    binding: Binding, data: Snapshot, *, all_of_them: bool = True, compared: Sequence[str] = ()
) -> Binding:
    """Return the binding with the golden of every output that has one.

    `compared` are the outputs that have goldens according to the artifact; names that are no outputs are ignored. With
    `all_of_them`, raises a `golden_error` for an output without golden while others have one. Always raises it for a
    golden of another dtype or shape than the tensor.
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
            raise _golden_error(
                path, message, "save the golden again with the dtype and shape that the program computes"
            )
    return dataclasses.replace(tensor, golden=golden.contiguous())


def _text(value: str | Shape) -> str:
    return value if isinstance(value, str) else str(list(value))


def _direction_from_files(source: Path | None, golden: Path | None) -> str:
    """Return the direction that the files imply: OUT for a golden alone, INOUT for both files."""
    if golden is None:
        return "IN"
    return "OUT" if source is None else "INOUT"


def _seeded_tensor(param: Param, seed: int) -> TensorArg:
    """Return a tensor made from a seed: reproducible, and different for each parameter."""
    shape, dtype = _declared_shape(param), param.dtype
    if shape is None or dtype is None:
        raise _unknown_shape(param)
    direction = param.direction or "INOUT"
    if direction == "OUT":
        return TensorArg(param.name, direction, dtype, shape)
    from pypto_build.replay.values import seeded_bytes

    try:
        return TensorArg(param.name, direction, dtype, shape, seeded_bytes(seed, param.name, dtype, shape))
    except (MemoryError, ValueError):  # numpy's limits: bytes, and the number of dimensions
        message = f"there is not enough memory to generate tensor '{param.name}' of shape {list(shape)}"
        raise ArtifactError("compiled_meta.json", message, "give data for it with DATA=") from None


def _is_settled(param: Param) -> bool:
    """Return whether the interface declares the dtype and every dimension of the shape."""
    return param.dtype is not None and param.shape is not None and -1 not in param.shape


def _declared_shape(param: Param) -> Shape | None:
    """Return the parameter's own shape, dynamic dimensions taken as 1."""
    return None if param.shape is None else tuple(1 if size < 0 else size for size in param.shape)


def _require_memory(parameters: Sequence[Param]) -> None:
    """Raise for tensors that are declared larger than the memory, before any of them is made."""
    limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for param in parameters:
        size = math.prod(_declared_shape(param) or (0,)) * ITEMSIZE.get(param.dtype or "", 1)
        if size > limit:
            raise ArtifactError(
                "compiled_meta.json",
                (
                    f"tensor '{param.name}' is declared {param.dtype}{list(param.shape or ())} and "
                    f"needs {size >> 30:,} GiB, but only {limit >> 30:,} GiB of memory is available"
                ),
                "correct the declared shape, or compile the program again",
            )


def _unknown_shape(param: Param) -> ArtifactError:
    return ArtifactError(
        "compiled_meta.json",
        f"nothing tells the shape and dtype of tensor '{param.name}'",
        "save a snapshot under data/in and data/out, or give one with DATA=",
    )


def _read(path: Path, param: Param) -> PtTensor:
    """Return the tensor in `path`, checked against what the parameter is declared as."""
    tensor = _as_declared(read_pt(path, kind="golden_error"), param.dtype)
    if param.dtype is not None and tensor.dtype != param.dtype:
        message = f"has dtype {tensor.dtype}, but parameter '{param.name}' is declared {param.dtype}"
        raise _golden_error(path, message, "save the tensor again in that dtype, or compile the artifact again")
    if not param.fits(tensor.shape):
        message = f"has shape {list(tensor.shape)}, but parameter '{param.name}' is declared {list(param.shape or ())}"
        raise _golden_error(path, message, "save the tensor again in that shape, or compile the artifact again")
    return tensor


def _as_declared(tensor: PtTensor, dtype: str | None) -> PtTensor:
    """Return the tensor in its declared unsigned dtype if the file has the signed type of that width: older torch
    had no unsigned types.
    """
    if dtype is None or tensor.dtype != _CARRIERS.get(dtype):
        return tensor
    return msgspec.structs.replace(tensor, dtype=dtype)


def _snapshot_scalar(param: Param, data: Snapshot) -> ScalarArg:
    path = data.inputs[param.name]
    tensor = read_pt(path, kind="golden_error")
    if math.prod(tensor.shape) != 1 or len(tensor.shape) > 1:
        message = f"has shape {list(tensor.shape)}, but parameter '{param.name}' is a scalar"
        raise _golden_error(path, message, "save the value as a 0-dim tensor")
    if param.dtype is not None and tensor.dtype != param.dtype:
        message = f"has dtype {tensor.dtype}, but scalar '{param.name}' is declared {param.dtype}"
        raise _golden_error(path, message, "save the value again in that dtype")
    try:
        value = scalar_value(bytes(tensor.contiguous()), tensor.dtype)
        return ScalarArg(param.name, tensor.dtype, value, scalar_bits(value, tensor.dtype))
    except ValueError as error:
        raise _golden_error(path, str(error)) from None


def _seeded_scalar(param: Param, data: Snapshot) -> ScalarArg:
    """Return 1 for a scalar without data: scalars are sizes, counts and factors, for which random bits make no
    sense."""
    dtype = param.dtype or "int64"
    return ScalarArg(param.name, dtype, 1, scalar_bits(1, dtype))


def _overriding_scalar(param: Param, value: Scalar) -> ScalarArg:
    dtype = param.dtype or natural_dtype(value)
    try:
        return ScalarArg(param.name, dtype, value, scalar_bits(value, dtype))
    except ValueError as error:
        raise ArtifactError(f"--scalar {param.name}", str(error)) from None
