"""The arguments of a scene test: tensors and scalars, and an ordered container of them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch


class TensorArg(NamedTuple):
    """A tensor among the arguments."""

    name: str
    value: torch.Tensor


class Scalar(NamedTuple):
    """A scalar among the arguments: a ctypes value, an int or a float."""

    name: str
    value: Any


class TaskArgsBuilder:
    """Ordered arguments, tensors before scalars; each is an attribute too.

    Raises ValueError for a repeated name, for the name of a method, and for a tensor after a scalar.
    """

    def __init__(self, *specs: TensorArg | Scalar) -> None:
        self._specs: list[TensorArg | Scalar] = []
        for spec in specs:
            self._add(spec)

    def add_tensor(self, name: str, value: torch.Tensor) -> None:
        """Add a tensor."""
        self._add(TensorArg(name, value))

    def add_scalar(self, name: str, value: Any) -> None:
        """Add a scalar."""
        self._add(Scalar(name, value))

    def _add(self, spec: TensorArg | Scalar) -> None:
        if any(spec.name == other.name for other in self._specs):
            raise ValueError(f"two arguments are named {spec.name!r}")
        if spec.name in dir(type(self)):
            raise ValueError(f"an argument cannot be named {spec.name!r}: that is a method")
        if isinstance(spec, TensorArg) and any(isinstance(other, Scalar) for other in self._specs):
            raise ValueError(f"tensor {spec.name!r} comes after a scalar; tensors come first")
        self._specs.append(spec)

    def __getattr__(self, name: str) -> Any:
        for spec in self.__dict__.get("_specs", ()):
            if spec.name == name:
                return spec.value
        raise AttributeError(f"there is no argument {name!r}")

    def clone(self) -> TaskArgsBuilder:
        """Return a copy, with copies of all values."""
        copied = TaskArgsBuilder()
        for spec in self._specs:
            if isinstance(spec, TensorArg):
                copied.add_tensor(spec.name, spec.value.clone())
            else:
                copied.add_scalar(spec.name, copy.copy(spec.value))
        return copied

    @property
    def specs(self) -> list[TensorArg | Scalar]:
        """Return all arguments in order."""
        return self._specs

    def tensor_names(self) -> list[str]:
        """Return the names of the tensors in order."""
        return [spec.name for spec in self._specs if isinstance(spec, TensorArg)]

    def scalar_names(self) -> list[str]:
        """Return the names of the scalars in order."""
        return [spec.name for spec in self._specs if isinstance(spec, Scalar)]
