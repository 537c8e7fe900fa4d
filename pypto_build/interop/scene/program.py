"""The program that a class declares, or an entry of a class of several chips; a worker registers it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArgDirection
from pypto_build.interop.scene.worker import CallConfig, ChipCallable, CoreCallable, KernelCompiler, RuntimeEnv

_ENTRY = "aicpu_orchestration_entry"
_RINGS = ("ring_task_window", "ring_heap", "ring_dep_pool")


def program_of(entry: Mapping[str, Any], place: Path, platform: str, runtime: str) -> ChipCallable:
    """Return the program that ``CALLABLE`` declares; paths are relative to ``place``, the directory of its file. Raises
    FileNotFoundError for a missing source."""
    compiler = KernelCompiler(platform)
    children = [
        (
            kernel["func_id"],
            CoreCallable.build(
                kernel.get("signature", []),
                compiler.compile_incore(
                    place / kernel["source"],
                    kernel["core_type"],
                    extra_include_dirs=[place / text for text in kernel.get("extra_include_dirs", [])],
                ),
            ),
        )
        for kernel in entry["incores"]
    ]
    orchestration = entry["orchestration"]
    binary = compiler.compile_orchestration(runtime, place / orchestration["source"])
    signature = [word for word in orchestration.get("signature", []) if word is not ArgDirection.SCALAR]
    name = orchestration.get("function_name", _ENTRY)
    return ChipCallable.build(signature, name, binary, children, orchestration.get("config_name", ""))


def config_of(asked: Mapping[str, Any]) -> CallConfig:
    """Return the run configuration for a case's ``config``."""
    rings = asked.get("runtime_env", {})
    config = CallConfig(aicpu_thread_num=asked.get("aicpu_thread_num", 0))
    config.runtime_env = RuntimeEnv(**{name: rings[name] for name in _RINGS if rings.get(name)})
    return config
