"""The embedded runtime: scheduling cost per task, memory, and whole replays beside a peer.

    python -m benchmarks.runtime [--tasks 100000] [--repeat 5] [--artifact DIR …] [--peer COMMAND [--peer-run PATTERN]]
    python -m benchmarks.runtime --beside MODULE [--tasks 100000] [--repeat 30]

Scheduling is measured with kernels that do nothing, on one thread and on all. The budget is 2 µs for a task on one
thread, with memory bounded by the ring limits. Each artifact is built once and replayed; ``process`` is from process
start to verdict, ``run`` is the run alone as the verdict states it. A peer is a command that replays the built artifact
put in place of ``{}``, for example on simpler's simulator. It is measured in the same run, from process start to end.
Its run alone is what PATTERN finds in its output, in nanoseconds: by default the scheduling span of simpler's log, from
the first task to the last.

With ``--beside`` the tasks that do nothing are run in turns on this runtime and on another build of it (``python -m
pypto_build.runtime.build DIR`` in another checkout). They run on one thread, with the buffers of a replay: the report
and, where the build has one, the flight recorder. Processor time is compared, which other work of the machine changes
less.
"""

from __future__ import annotations

import argparse
import json
import math
import mmap
import multiprocessing
import os
import re
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pypto_build.artifact import artifact_name
from pypto_build.facts.layouts import FLIGHT_BYTES, REPORT_BYTES
from pypto_build.replay.loading import load_embedded
from pypto_build.rules.machinery.runtime_module import module_path
from pypto_build.runtime.build import INCLUDE_DIR, build
from pypto_build.toolchain.host import find_compiler

_REPOSITORY = Path(__file__).resolve().parents[1]
_BUDGET_US = 2.0
_PEER_RUN = r"name=chip\.run\.runner_run\.device_wall\.sched\b.*?dur=(\d+)"
_KERNEL = '#include <stdint.h>\nextern "C" void kernel_entry(int64_t *) {}\n'
_ORCHESTRATION = """
#include <stdint.h>
#include "pto_orchestration_api.h"
extern "C" __attribute__((visibility("default"))) void aicpu_orchestration_entry(const ChipTaskArgs &orch_args) {
    const ChipTensor &x = orch_args.tensor(0).ref();
    const ChipTensor &y = orch_args.tensor(1).ref();
    const int64_t count = from_u64<int64_t>(orch_args.scalar(0));
    const int64_t shape = from_u64<int64_t>(orch_args.scalar(1));
    for (int64_t i = 0; i < count; i += 1) {
        PTO2_SCOPE() {
            CoreTaskArgs p;
            p.add_input(x);
            if (shape == 0) {
                p.add_output(y);
                rt_submit_aiv_task(0, p);
            } else if (shape == 1) {
                p.add_inout(y);
                rt_submit_aiv_task(0, p);
            } else {
                uint32_t sizes[1] = {64};
                TensorCreateInfo info(sizes, 1);
                TaskOutputTensors outs = alloc_tensors(info);
                const ChipTensor &t = outs.get_ref(0);
                p.add_output(t);
                rt_submit_aiv_task(0, p);
                CoreTaskArgs q;
                q.add_input(t);
                q.add_output(y);
                rt_submit_aiv_task(0, q);
                i += 1;
            }
        }
    }
}
"""
_SHAPES = ("independent", "chain", "producer and consumer")


def _compile(text: str, target: Path) -> Path:
    source = target.with_suffix(".cpp")
    source.write_text(text, encoding="utf-8")
    command = [find_compiler().path, "-std=c++17", "-O2", "-fPIC", "-shared", "-I", str(INCLUDE_DIR)]
    subprocess.run([*command, str(source), "-o", str(target)], check=True)
    return target


def _module() -> Path:
    compiler = find_compiler()
    path = module_path(compiler)
    return path if path.exists() else build(path.parent, compiler.path)


def _schedule(
    module: Path, kernel: Path, orchestration: Path, threads: int, shape: int, tasks: int
) -> tuple[float, float]:
    """Microseconds a task, and the megabytes the run added; in a process of its own."""
    embedded = load_embedded(module)
    runtime = embedded.Runtime("a2a3sim", threads)
    runtime.load_kernel(0, "nothing", "aiv", str(kernel))
    runtime.load_orchestration(str(orchestration))
    x, y = bytearray(256), bytearray(256)
    buffers = _buffers(embedded)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = runtime.run(_tensors(x, y), [tasks, shape], buffers)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return result.run_s / result.tasks * 1e6, (after - before) / 1024


def _tensors(x: bytearray, y: bytearray) -> list[tuple[bytearray, tuple[int], str, str]]:
    return [(x, (64,), "float32", "IN"), (y, (64,), "float32", "INOUT")]


def _buffers(embedded: ModuleType) -> dict[str, memoryview]:
    """Return the buffers that a replay passes to a run, as far as this build has them."""
    sizes = {"report": REPORT_BYTES, "flight": FLIGHT_BYTES}
    return {name: memoryview(mmap.mmap(-1, size)) for name, size in sizes.items() if name in embedded.OPTIONS}


_kept: dict[Path, Any] = {}


def _processor_ns(module: Path, kernel: Path, orchestration: Path, shape: int, tasks: int) -> float:
    """Nanoseconds of processor time a task, in a process that keeps the runtime loaded."""
    if module not in _kept:
        embedded = load_embedded(module)
        runtime = embedded.Runtime("a2a3sim", 1)
        runtime.load_kernel(0, "nothing", "aiv", str(kernel))
        runtime.load_orchestration(str(orchestration))
        _kept[module] = (runtime, _buffers(embedded))
    runtime, buffers = _kept[module]
    x, y = bytearray(256), bytearray(256)
    start = time.process_time()
    done = runtime.run(_tensors(x, y), [tasks, shape], buffers).tasks
    return float((time.process_time() - start) / done * 1e9)


def _beside(module: Path, tasks: int, rounds: int, directory: Path) -> None:
    kernel = _compile(_KERNEL, directory / "kernel.so")
    orchestration = _compile(_ORCHESTRATION, directory / "orchestration.so")
    modules = (module, _module())
    print(f"{tasks} tasks that do nothing, {rounds} rounds of each in turns, one thread, processor time\n")
    print(f"{'ns/task':24}{'other':>10}{'this':>10}{'median':>11}{'fastest':>13}")
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(1) as one, spawn.Pool(1) as other:
        for shape, name in enumerate(_SHAPES):
            spent: list[list[float]] = [[], []]
            for number in range(2 * rounds + 2):
                which = (number + number // 2) % 2  # 0 1 1 0 0 1 1 0: neither always comes first
                job = (modules[which], kernel, orchestration, shape, tasks)
                nanoseconds = (one, other)[which].apply(_processor_ns, job)
                if number > 1:
                    spent[which].append(nanoseconds)
            theirs, ours = map(statistics.median, spent)
            fastest = min(spent[1]) / min(spent[0])
            print(
                f"{name:24}{theirs:>10.0f}{ours:>10.0f}{(ours / theirs - 1) * 100:>+9.1f} %"
                f"{(fastest - 1) * 100:>+11.1f} %",
                flush=True,
            )


def _scheduling(tasks: int, repeat: int, directory: Path) -> bool:
    module = _module()
    kernel = _compile(_KERNEL, directory / "kernel.so")
    orchestration = _compile(_ORCHESTRATION, directory / "orchestration.so")
    print(f"{tasks} tasks that do nothing, best of {repeat}\n")
    print(f"{'tasks':24}{'threads':>8}{'us/task':>9}{'budget':>8}{'MB':>6}")
    met = True
    for threads in sorted({1, os.cpu_count() or 1}):
        for shape, name in enumerate(_SHAPES):
            job = (module, kernel, orchestration, threads, shape, tasks)
            with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
                rounds = [pool.apply(_schedule, job) for _ in range(repeat)]
            best, megabytes = min(rounds)
            budget = f"{_BUDGET_US:.1f}" if threads == 1 else "-"
            met = met and (threads > 1 or best <= _BUDGET_US)
            print(f"{name:24}{threads:>8}{best:>9.2f}{budget:>8}{megabytes:>6.0f}")
    return met


@dataclass(frozen=True)
class _Peer:
    command: str
    pattern: str
    repeat: int

    def measure(self, artifact: Path) -> tuple[float, float]:
        """Median seconds of the process and of the run alone; the latter NaN where the output does not tell."""
        command = [word.replace("{}", str(artifact)) for word in shlex.split(self.command)]
        process, output = _wall(command, self.repeat)
        runs = [int(nanoseconds) / 1e9 for nanoseconds in re.findall(self.pattern, output)]
        return process, statistics.median(runs) if runs else math.nan


def _wall(command: Sequence[str], repeat: int) -> tuple[float, str]:
    """Median seconds of a command from process start to end, and what it printed.

    Raises `subprocess.CalledProcessError`.
    """
    seconds, output = [], ""
    for _ in range(repeat):
        start = time.perf_counter()
        done = subprocess.run(command, cwd=_REPOSITORY, check=True, capture_output=True, text=True)
        seconds.append(time.perf_counter() - start)
        output += done.stdout + done.stderr
    return statistics.median(seconds), output


def _replays(artifacts: Sequence[Path], peer: _Peer, repeat: int, directory: Path) -> None:
    print(f"\n{'':40}{'process':>9}{'run':>10}{'peer process, factor':>22}{'peer run, factor':>22}")
    for artifact in artifacts:
        built = directory / "build"
        subprocess.run(
            [sys.executable, "-m", "pypto_build.cli", "build", str(artifact), "--build-dir", str(built)],
            cwd=_REPOSITORY,
            check=True,
            capture_output=True,
        )
        output = built / "a2a3sim" / artifact_name(artifact)
        command = [sys.executable, "-m", "pypto_build.replay", str(artifact), "--platform", "a2a3sim"]
        command += ["--build-dir", str(output), "--embedded", str(_module()), "--rtol", "1e-3", "--atol", "1e-3"]
        process, _ = _wall(command, repeat)
        run_s = json.loads((output / "verdict.json").read_text())["run_s"]
        row = f"{artifact.name:40}{process:>8.3f}s{run_s * 1e3:>8.2f}ms"
        if peer.command:
            other, other_run = peer.measure(artifact)
            row += f"{other:>11.2f}s{other / process:>9.1f}x"
            row += "" if math.isnan(other_run) else f"{other_run * 1e3:>11.2f}ms{other_run / run_s:>8.1f}x"
        print(row, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if the scheduling budget is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.runtime", description=main.__doc__)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--artifact", type=Path, action="append", help="directory of an artifact with a snapshot")
    parser.add_argument("--peer", default="", help="command that replays the artifact {} elsewhere")
    parser.add_argument("--peer-run", default=_PEER_RUN, help="pattern of its run time in nanoseconds")
    parser.add_argument("--peer-repeat", type=int, default=1)
    parser.add_argument("--beside", type=Path, metavar="MODULE", help="another build of the runtime, to compare with")
    options = parser.parse_args(argv)
    examples = _REPOSITORY / "examples" / "artifacts"
    artifacts = options.artifact or [examples / "_jit_vector_dag", examples / "_jit_matmul"]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        if options.beside:
            _beside(options.beside.resolve(), options.tasks, options.repeat, directory)
            return 0
        met = _scheduling(options.tasks, options.repeat, directory)
        peer = _Peer(options.peer, options.peer_run, options.peer_repeat)
        _replays([path.resolve() for path in artifacts], peer, options.repeat, directory)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
