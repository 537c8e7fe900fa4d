"""Writes the arguments of a scene test as files, and reads them back: tensors and scalars of a `TaskArgsBuilder`."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.pt import read_pt, write_pt
from pypto_build.artifact.scenes import Arguments
from pypto_build.facts.dtypes import ITEMSIZE, TORCH

#: torch's dtype of a scalar by the ctypes type that carries it; integers count as 64 bits, floats as float32.
_OF_CTYPES: dict[type[Any], str] = {
    **{ctypes.c_float: "float32", ctypes.c_double: "float64"},
    **{getattr(ctypes, f"c_{name}"): name for name, row in TORCH.items() if not row.is_float},
}
#: The dtype that stores the bytes of tensors with element types unknown to this package.
_CARRIER = "uint8"


def write_tensor(path: Path, name: str, tensor: torch.Tensor) -> None:
    """Write one tensor. Raises a golden error for a tensor that cannot be passed to a run."""
    problem = (
        f"is a {type(tensor).__name__}, not a tensor"
        if not isinstance(tensor, torch.Tensor)
        else "has no dimensions; shape (1,) is the smallest"
        if tensor.dim() == 0
        else "is not contiguous"
        if not tensor.is_contiguous()
        else ""
    )
    if problem:
        raise ArtifactError("generate_args", f"argument '{name}' {problem}", "change it", kind="golden_error")
    dtype, shape = str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)
    dtype = dtype if dtype in ITEMSIZE else _CARRIER
    data = tensor.detach().view(torch.uint8).numpy().data if tensor.numel() else b""
    write_pt(path, dtype, shape, data)


def write_scalar(path: Path, name: str, value: Any) -> None:
    """Write one scalar as a tensor without dimensions."""
    number = getattr(value, "value", value)
    dtype = _OF_CTYPES.get(type(value)) or ("float32" if isinstance(number, float) else "int64")
    if not isinstance(number, (int, float)):
        raise ArtifactError("generate_args", f"scalar '{name}' is a {type(value).__name__}", "give a number")
    carrier: Any = next(ctype for ctype, of_torch in _OF_CTYPES.items() if of_torch == dtype)
    write_pt(path, dtype, (), bytes(carrier(number)))


def read_tensor(path: Path) -> torch.Tensor:
    """Return the tensor in ``path``, in memory of its own."""
    found = read_pt(path)
    data = bytearray(found.contiguous())
    dtype = getattr(torch, found.dtype)
    if not data:
        return torch.empty(found.shape, dtype=dtype)
    return torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(found.shape)


def read_number(path: Path) -> Any:
    """Return the scalar in ``path``."""
    return read_tensor(path).item()


def arguments_of(tensors: Sequence[str], scalars: Iterable[str]) -> Arguments:
    """Return the names of the arguments. Raises a golden error for one that cannot name a file."""
    for name in (*tensors, *scalars):
        if not name.isidentifier():
            raise ArtifactError(
                "generate_args", f"'{name}' is not a parameter name", "use letters, digits and _", kind="golden_error"
            )
    return Arguments(tuple(tensors), tuple(scalars))
