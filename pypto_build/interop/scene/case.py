"""What scene tests are written with: the base class, the builder of arguments, and the marks of levels.

Names, order of calls and defaults are simpler's (package ``simpler_setup``); older names of the same things are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pypto_build.interop.scene.arguments import TaskArgsBuilder

_Marked = TypeVar("_Marked")


class SceneTestLevel(IntEnum):
    """How much of a machine a test needs."""

    CHIP = 2
    NODE = 3
    NETWORK1 = 4


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
