"""Runs of very many tasks: what a replay that records them takes, and the pages and tables made of its records.

    python -m benchmarks.large_run [--tasks 100000] [--blocks 10] [--keep DIR]

An artifact of one kernel is written whose orchestration submits so many tasks in 64 chains, each of so many blocks:
tasks times blocks are the events of the timeline. Processor seconds and the memory of the largest process of each
command, and the sizes of what it wrote.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pypto_build.artifact.pt import write_pt

_REPOSITORY = Path(__file__).resolve().parents[1]
_CHAINS = 64
_KERNEL = """#include <cstdint>
#include "tensor.h"
#include "intrinsic.h"
extern "C" void kernel_entry(int64_t* args) {
    ChipTensor* y = reinterpret_cast<ChipTensor*>(args[0]);
    float* out = reinterpret_cast<float*>(y->buffer.addr) + y->start_offset;
    if (get_block_idx(args) == 0) out[0] += 1.0f;
}
"""
_PARTS = """    const ChipTensor& y = orch_args.tensor(0).ref();
    for (uint32_t first = 0; first < TASKS; first += 1024) PTO2_SCOPE() {
        for (uint32_t i = first; i < TASKS && i < first + 1024; ++i) {
            uint32_t shape[1] = {1}, offset[1] = {i % CHAINS};
            ChipTensor part = y.view(shape, offset);
            CoreTaskArgs params;
            params.add_inout(part);
            params.launch_spec.set_block_num(BLOCKS);
            rt_submit_aiv_task(0, params);
        }
    }
"""
_ORCHESTRATION = """#include <stdint.h>
#include "pto_orchestration_api.h"
#define EXPORTED extern "C" __attribute__((visibility("default")))
EXPORTED PTO2OrchestrationConfig aicpu_orchestration_config(const ChipTaskArgs&) {
    return {.expected_arg_count = COUNT};
}
EXPORTED void aicpu_orchestration_entry(const ChipTaskArgs& orch_args) {
BODY}
"""
_MANIFEST = """from pathlib import Path
_ROOT_DIR = Path(__file__).parent
RUNTIME_CONFIG = {"runtime": "tensormap_and_ringbuffer", "aicpu_thread_num": 0}
ORCHESTRATION = {
\t"source": str(_ROOT_DIR / "orchestration" / "many.cpp"),
\t"function_name": "aicpu_orchestration_entry",
}
KERNELS = [
\t{"func_id": 0, "name": "step", "source": str(_ROOT_DIR / "kernels" / "aiv" / "step.cpp"), "core_type": "aiv"},
]
"""


def write_step(root: Path, kernel: str, body: str, params: Sequence[tuple[str, str, int]]) -> None:
    """An artifact of the one kernel ``step``: its text, the body of the orchestration, and vectors of float32 as
    (name, direction, elements)."""
    tensors = [{"name": name, "direction": how, "shape": [size], "dtype": "fp32"} for name, how, size in params]
    meta = {"schema": 1, "params": tensors, "num_return_types": 0, "platform": "a2a3sim", "backend_type": "Ascend910B"}
    texts = {
        "kernels/aiv/step.cpp": kernel,
        "orchestration/many.cpp": _ORCHESTRATION.replace("COUNT", str(len(params))).replace("BODY", body),
        "kernel_config.py": _MANIFEST,
        "compiled_meta.json": json.dumps(meta),
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def write_many(root: Path, tasks: int, blocks: int) -> None:
    """The artifact, with its data: element i of y counts the tasks of chain i."""
    body = _PARTS.replace("TASKS", f"{tasks}u").replace("CHAINS", f"{_CHAINS}u").replace("BLOCKS", str(blocks))
    write_step(root, _KERNEL, body, [("y", "InOut", _CHAINS)])
    counts = [float(tasks // _CHAINS + (chain < tasks % _CHAINS)) for chain in range(_CHAINS)]
    _write_vector(root / "data" / "in" / "y.pt", [0.0] * _CHAINS)
    _write_vector(root / "data" / "out" / "y.pt", counts)


def _write_vector(path: Path, values: list[float]) -> None:
    import array

    write_pt(path, "float32", (len(values),), array.array("f", values).tobytes())


def _run(what: str, words: list[str], directory: Path, wrote: str = "") -> None:
    """Run a command and print its line of the table."""
    environment = {**os.environ, "PYTHONPATH": str(_REPOSITORY), "PYPTO_BUILD_SERVER": "0"}
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-m", "pypto_build.cli", *words]
    run = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    seconds, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode:
        raise SystemExit(f"{shlex.join(words)} failed with {run.returncode}:\n{(run.stdout + run.stderr)[-3000:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    files = sorted(directory.glob(wrote)) if wrote else []
    size = ", ".join(f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in files)
    print(f"| {what} | {seconds:.1f} | {used:.1f} | {after.ru_maxrss / 1024:.0f} | {size} |", flush=True)


def main() -> int:
    """Measure and print the table, a row as soon as it is known; memory is that of the largest process so far."""
    parser = argparse.ArgumentParser(description="runs of very many tasks")
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="work there, and leave everything")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="large-run") as temporary:
        directory = (options.keep or Path(temporary)).resolve()
        root = directory / "build_output" / "_jit_many_tasks"
        write_many(root, options.tasks, options.blocks)
        print(f"{options.tasks:,} tasks of {options.blocks} blocks: {options.tasks * options.blocks:,} events\n")
        print(
            "| what | seconds | processor s | largest process so far, MB | wrote |\n|---|---|---|---|---|", flush=True
        )
        out = "build/*/_jit_many_tasks/"
        _run("replay", ["replay", str(root)], directory)
        records = ["DEP_GEN=1", "SWIMLANE=4"]
        _run("replay with records", ["replay", str(root), *records], directory, f"{out}dfx_outputs/*.json")
        _run("deps", ["deps", str(root)], directory)
        _run("deps EXPORT=trace", ["deps", str(root), "EXPORT=trace"], directory, f"{out}trace*")
        _run("report", ["report", str(root)], directory, f"{out}report.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
