"""The classes and decorators of scene tests: the base class, the builder of arguments, and the marks of levels.

Names, order of calls and defaults are those of simpler's package ``simpler_setup``; its older names also work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pypto_build.artifact import ArgDirection
from pypto_build.interop.scene.arguments import TaskArgsBuilder
from pypto_build.interop.scene.worker import ChipCallable, CoreCallable, KernelCompiler
from pypto_build.replay.chips.driver import CallConfig, RuntimeEnv

# The program that a class declares, or an entry of a class of several chips; a worker registers it.

_ENTRY = "aicpu_orchestration_entry"
_RINGS = ("ring_task_window", "ring_heap", "ring_dep_pool")


def program_of(entry: Mapping[str, Any], directory: Path, platform: str, runtime: str) -> ChipCallable:
    """Return the program that ``CALLABLE`` declares; paths are relative to ``directory``, that of its file. Raises
    FileNotFoundError for a missing source."""
    compiler = KernelCompiler(platform)
    children = [
        (
            kernel["func_id"],
            CoreCallable.build(
                kernel.get("signature", []),
                compiler.compile_incore(
                    directory / kernel["source"],
                    kernel["core_type"],
                    extra_include_dirs=[directory / text for text in kernel.get("extra_include_dirs", [])],
                ),
            ),
        )
        for kernel in entry["incores"]
    ]
    orchestration = entry["orchestration"]
    binary = compiler.compile_orchestration(runtime, directory / orchestration["source"])
    signature = [word for word in orchestration.get("signature", []) if word is not ArgDirection.SCALAR]
    name = orchestration.get("function_name", _ENTRY)
    return ChipCallable.build(signature, name, binary, children, orchestration.get("config_name", ""))


def config_of(fields: Mapping[str, Any]) -> CallConfig:
    """Return the run configuration for a case's ``config``."""
    rings = fields.get("runtime_env", {})
    config = CallConfig(aicpu_thread_num=fields.get("aicpu_thread_num", 0))
    config.runtime_env = RuntimeEnv(**{name: rings[name] for name in _RINGS if rings.get(name)})
    return config


_Marked = TypeVar("_Marked")


class SceneTestLevel(IntEnum):
    """The part of a machine that a test needs."""

    CHIP = 2
    NODE = 3
    NETWORK1 = 4


def compare(
    actual_args: TaskArgsBuilder, golden_args: TaskArgsBuilder, names: Sequence[str], rtol: float, atol: float
) -> None:
    """Raise AssertionError for an output that differs from its golden by more than these tolerances."""
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
        """Return the arguments of a case."""
        raise NotImplementedError(f"{type(self).__name__} has no generate_args")

    def compute_golden(self, args: TaskArgsBuilder, params: Any) -> None:
        """Change a copy of the arguments, in place, to the expected values after the run."""
        raise NotImplementedError(f"{type(self).__name__} has no compute_golden")

    def compare_outputs(
        self, test_args: TaskArgsBuilder, golden_args: TaskArgsBuilder, output_names: Sequence[str], params: Any
    ) -> None:
        """Raise AssertionError for an output that differs from its golden by more than the class's tolerances."""
        compare(test_args, golden_args, output_names, self.RTOL, self.ATOL)

    def build_callable(self, platform: str) -> Any:
        """Return the program of the class, which a worker registers."""
        import inspect

        directory = Path(inspect.getfile(type(self))).resolve().parent
        return program_of(self.CALLABLE, directory, platform, type(self)._st_runtime)  # type: ignore[attr-defined]

    def _build_config(self, config_dict: Any, *_: Any, **how: Any) -> Any:
        """Return the configuration of a run: ring sizes, and the requested records."""

        config = config_of(config_dict)
        for name, value in how.items():
            setattr(config, name, value)
        return config

    def test_run(self, st_platform: str, st_worker: Any, request: Any) -> None:
        """Run the cases on the worker; pytest calls this method."""
        st_worker.run_cases(self)

    def _matching_cases(self, st_platform: str, request: Any) -> list[Any]:
        """Return the cases of the current run."""
        selected: list[Any] = request.config.cases(type(self))
        return selected

    @staticmethod
    def _effective_enable_dep_gen(request: Any) -> bool:
        return bool(request.config.getoption("--enable-dep-gen", False))

    @staticmethod
    def run_module(module_name: str) -> None:
        """Do nothing: in simpler this runs the file as a script."""


def scene_level(level: int) -> Callable[[_Marked], _Marked]:
    """Mark a test with its level. Raises ValueError for an unknown level."""
    marked = SceneTestLevel(level)

    def mark(target: _Marked) -> _Marked:
        target._st_level = marked  # type: ignore[attr-defined]
        return target

    return mark


def scene_test(level: int, runtime: str) -> Callable[[_Marked], _Marked]:
    """Mark a class as a scene test of this level for this runtime."""

    def mark(target: _Marked) -> _Marked:
        scene_level(level)(target)
        target._st_runtime = runtime  # type: ignore[attr-defined]
        return target

    return mark


class CallableNamespace:
    """The namespace of callables that a test of level 3 gets."""

    def __init__(self, entries: dict[str, Any]) -> None:
        self.__dict__.update(entries)

    def keep(self, *objects: Any) -> Any:
        """Return the objects, which the recorder keeps until the run is over."""
        return objects[0] if len(objects) == 1 else objects or None
