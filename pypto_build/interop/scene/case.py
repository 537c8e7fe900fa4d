"""What scene tests are written with: the base class, the builder of arguments, and the marks of levels.

Names, order of calls and defaults are simpler's (package ``simpler_setup``); older names of the same things are kept.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    import torch

_Marked = TypeVar("_Marked")


class NeedsSimpler(Exception):
    """Something of simpler's was used that nothing stands in for; the text says what."""


class SceneTestLevel(IntEnum):
    """How much of a machine a test needs."""

    CHIP = 2
    NODE = 3
    NETWORK1 = 4


class TensorArg(NamedTuple):
    """A tensor among the arguments."""

    name: str
    value: torch.Tensor


class Scalar(NamedTuple):
    """A scalar among the arguments: a ctypes value, an int or a float."""

    name: str
    value: Any


class TaskArgsBuilder:
    """Arguments in their order, tensors before scalars; each is an attribute too.

    Raises ValueError for a name that is there twice or is a method's, and for a tensor after a scalar.
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
        """The same with copies of all values."""
        copied = TaskArgsBuilder()
        for spec in self._specs:
            if isinstance(spec, TensorArg):
                copied.add_tensor(spec.name, spec.value.clone())
            else:
                copied.add_scalar(spec.name, copy.copy(spec.value))
        return copied

    @property
    def specs(self) -> list[TensorArg | Scalar]:
        """All arguments in their order."""
        return self._specs

    def tensor_names(self) -> list[str]:
        """Names of the tensors in their order."""
        return [spec.name for spec in self._specs if isinstance(spec, TensorArg)]

    def scalar_names(self) -> list[str]:
        """Names of the scalars in their order."""
        return [spec.name for spec in self._specs if isinstance(spec, Scalar)]


def compare(
    actual_args: TaskArgsBuilder, golden_args: TaskArgsBuilder, names: Sequence[str], rtol: float, atol: float
) -> None:
    """Raises AssertionError for an output that differs from its golden by more than these tolerances."""
    import torch  # a file is described without it

    for name in names:
        actual, expected = getattr(actual_args, name), getattr(golden_args, name)
        if not torch.allclose(actual, expected, rtol=rtol, atol=atol):
            difference = (actual.to(torch.float64) - expected.to(torch.float64)).abs().max().item()
            raise AssertionError(f"Golden mismatch on '{name}': max_diff={difference}")


class SceneTestCase:
    """Base class of scene tests."""

    CALLABLE: Any = MappingProxyType({})
    CASES: Any = ()
    RTOL: float = 1e-5
    ATOL: float = 1e-5
    SKIP_GOLDEN: bool = False
    RUNTIME_ENV: Any = MappingProxyType({})

    def generate_args(self, params: Any) -> TaskArgsBuilder:
        """The arguments of a case."""
        raise NotImplementedError(f"{type(self).__name__} has no generate_args")

    def compute_golden(self, args: TaskArgsBuilder, params: Any) -> None:
        """Turn a copy of the arguments into what they should be after the run, in place."""
        raise NotImplementedError(f"{type(self).__name__} has no compute_golden")

    def compare_outputs(
        self, test_args: TaskArgsBuilder, golden_args: TaskArgsBuilder, output_names: Sequence[str], params: Any
    ) -> None:
        """Raises AssertionError for an output that differs from its golden by more than the class's tolerances."""
        compare(test_args, golden_args, output_names, self.RTOL, self.ATOL)

    def build_callable(self, platform: str) -> Any:
        """The program of the class, for a worker to register."""
        import inspect

        from pypto_build.interop.scene.program import program_of

        place = Path(inspect.getfile(type(self))).resolve().parent
        return program_of(self.CALLABLE, place, platform, type(self)._st_runtime)  # type: ignore[attr-defined]

    def _build_config(self, config_dict: Any, *_: Any, **how: Any) -> Any:
        """What a run is told: sizes of rings, and the records that are asked for."""
        from pypto_build.interop.scene.program import config_of

        config = config_of(config_dict)
        for name, value in how.items():
            setattr(config, name, value)
        return config

    def test_run(self, st_platform: str, st_worker: Any, request: Any) -> None:
        """What pytest calls; the runs themselves are the worker's."""
        st_worker.run_cases(self)

    def _matching_cases(self, st_platform: str, request: Any) -> list[Any]:
        """The cases that are run now."""
        selected: list[Any] = request.config.cases(type(self))
        return selected

    @staticmethod
    def _effective_enable_dep_gen(request: Any) -> bool:
        return bool(request.config.getoption("--enable-dep-gen", False))

    @staticmethod
    def run_module(module_name: str) -> None:
        """What a file does as a script; nothing when it is loaded by us."""


def scene_level(level: int) -> Callable[[_Marked], _Marked]:
    """Marks a test with its level. Raises ValueError for one there is not."""
    marked = SceneTestLevel(level)

    def mark(target: _Marked) -> _Marked:
        target._st_level = marked  # type: ignore[attr-defined]
        return target

    return mark


def scene_test(level: int, runtime: str) -> Callable[[_Marked], _Marked]:
    """Marks a class as a scene test of this level for this runtime."""

    def mark(target: _Marked) -> _Marked:
        scene_level(level)(target)
        target._st_runtime = runtime  # type: ignore[attr-defined]
        return target

    return mark


class CallableNamespace:
    """What a test of level 3 is given to call."""

    def __init__(self, entries: dict[str, Any]) -> None:
        self.__dict__.update(entries)

    def keep(self, *objects: Any) -> Any:
        """Keep objects until the run is over: whoever recorded them does."""
        return objects[0] if len(objects) == 1 else objects or None
