"""Compiles small kernels and orchestrations and runs them on the embedded runtime."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pypto_build.runtime.build import INCLUDE_DIR
from tests import kept

KERNEL_HEAD = """
#include <stdint.h>
#include "tensor.h"
#include "intrinsic.h"
#include "pypto/core_context.h"
static thread_local PyptoCoreContext *core; // one kernel may run on several threads at once
extern "C" __attribute__((visibility("default"))) void pypto_bind_core(PyptoCoreContext *context) { core = context; }
static inline ChipTensor &tensor(int64_t *args, int i) { return *reinterpret_cast<ChipTensor *>(args[i]); }
static inline float *data(int64_t *args, int i) { return tensor(args, i).data_as<float>(); }
static inline uint64_t count(int64_t *args, int i) { return tensor(args, i).numel(); }
template <typename T> static inline T scalar(int64_t *args, int i) { T v; __builtin_memcpy(&v, &args[i], sizeof v); return v; }
extern "C" __attribute__((visibility("default"))) void kernel_entry(int64_t *args) {
    (void)args; (void)core;
"""

ORCHESTRATION_HEAD = """
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "pto_orchestration_api.h"
"""


def f32_bits(value: float) -> int:
    """A float as the 64-bit word it travels in."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def entry(body: str, args: str = "const ChipTaskArgs& orch_args") -> str:
    """An orchestration with the entry of the newest generation, or with other parameters."""
    return f"""{ORCHESTRATION_HEAD}
extern "C" {{
__attribute__((visibility("default"))) void aicpu_orchestration_entry({args}) {{
{body}
}}
}}
"""


@dataclass
class Kernel:
    """A kernel to be compiled: the body of its kernel_entry(args)."""

    name: str
    body: str
    core_type: str = "aiv"
    prelude: str = ""
    flags: tuple[str, ...] = ()
    signature: list[str] | None = None


@dataclass
class Outcome:
    """The outcome of a run: its result and, on request, its task graph."""

    result: Any
    directory: Path
    graph: dict[str, Any] = field(default_factory=dict)

    def edges(self) -> set[tuple[int, int, str]]:
        """Edges between tasks numbered in submission order, with their source; allocations are all number -1."""
        order = {task["task_id"]: index for index, task in enumerate(self.graph["tasks"])}
        return {(order.get(edge["pred"], -1), order[edge["succ"]], edge["source"]) for edge in self.graph["edges"]}


class Rig:
    """Compiles, each text once, and loads what was compiled."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def compile(self, text: str, flags: Sequence[str] = ()) -> Path:
        """A shared object of `text`."""
        command = ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", *flags]

        def compile_to(source: Path, target: Path) -> None:
            subprocess.run([*command, "-I", str(INCLUDE_DIR), str(source), "-o", str(target)], check=True)

        return kept.library(text, command, compile_to)

    def compile_kernel(self, kernel: Kernel) -> Path:
        """A shared object of a kernel."""
        return self.compile(kernel.prelude + KERNEL_HEAD + kernel.body + "\n}\n", kernel.flags)

    def runtime(
        self, kernels: Sequence[Kernel], orchestration: str, platform: str = "a2a3sim", threads: int = 2
    ) -> Any:
        """A runtime with the kernels loaded as func_id 0, 1, … and the orchestration."""
        runtime = self.module.Runtime(platform, threads)
        for func_id, kernel in enumerate(kernels):
            path = str(self.compile_kernel(kernel))
            runtime.load_kernel(func_id, kernel.name, kernel.core_type, path, kernel.signature)
        runtime.load_orchestration(str(self.compile(orchestration)))
        return runtime

    def run(
        self,
        kernels: Sequence[Kernel],
        orchestration: str,
        tensors: Sequence[tuple[NDArray[Any], str]],
        scalars: Sequence[int] = (),
        directory: Path | None = None,
        platform: str = "a2a3sim",
        threads: int = 2,
        **options: Any,
    ) -> Outcome:
        """Run once. `tensors` are arrays with their direction; with a directory the task graph is recorded there."""
        runtime = self.runtime(kernels, orchestration, platform, threads)
        if directory is not None:
            options = {"dep_gen": True, "output_dir": str(directory), **options}
        result = runtime.run([parameter(array, direction) for array, direction in tensors], list(scalars), options)
        outcome = Outcome(result, directory or Path())
        if directory is not None:
            outcome.graph = json.loads((directory / "deps.json").read_text())
        return outcome


def parameter(array: NDArray[Any], direction: str) -> tuple[Any, tuple[int, ...], str, str]:
    """An array as the runtime takes it."""
    return (array, array.shape, str(array.dtype), direction)


def floats(*shape: int) -> NDArray[np.float32]:
    """0, 1, 2, … in the given shape."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
