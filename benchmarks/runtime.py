"""What the embedded runtime costs: small tasks, example artifacts, and a peer on the same artifacts if there is one.

    python -m benchmarks.runtime [--tasks 100000] [--repeat 5] [--peer 'COMMAND {artifact}' --peer-time REGEX]

Scheduling is the time of a run of N independent tasks that do nothing, divided by N, with one thread and with all. For
the artifacts, "process" is from the start of the replay process to its verdict and "run" from the first submission to
the last task's end. A peer is any command that runs an artifact; REGEX, with one group, finds its run time in
milliseconds in what it prints.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.generated import write_independent_tasks
from pypto_build.replay.verdict import read_verdict
from pypto_build.rules.embedded_runtime import module_path
from pypto_build.toolchain.host import find_compiler

_REPOSITORY = Path(__file__).resolve().parents[1]
_EXAMPLES = _REPOSITORY / "examples" / "artifacts"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="what the embedded runtime costs")
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--artifacts", nargs="+", type=Path, default=sorted(_EXAMPLES.glob("_jit_*")))
    parser.add_argument("--peer", default="", help="a command that runs {artifact}")
    parser.add_argument("--peer-time", default="", help="a pattern whose group is the peer's run time in ms")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="runtime_benchmark") as directory:
        work = Path(directory)
        (work / "SConstruct").write_text(
            "from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n", encoding="utf-8"
        )
        _scheduling(work, given.tasks, given.repeat)
        print("\n| artifact | tasks | process, ms | run, ms | peer process, ms | peer run, ms |")
        print("|---|---|---|---|---|---|")
        for artifact in given.artifacts:
            ours = _replay(work, artifact.resolve(), given.repeat)
            peer = _peer(artifact.resolve(), given.repeat, given.peer, given.peer_time)
            print(
                f"| {artifact.name} | {ours[0]} | {ours[1]:.1f} | {ours[2]:.2f} | {peer[0]} | {peer[1]} |", flush=True
            )
    return 0


def _scheduling(work: Path, tasks: int, repeat: int) -> None:
    artifact = write_independent_tasks(work / "build_output", tasks)
    print("| threads | tasks | run, s | per task, µs |\n|---|---|---|---|")
    for threads in (1, 0):
        _, _, run_ms = _replay(work, artifact, repeat, "--threads", str(threads))
        print(f"| {threads or 'all'} | {tasks} | {run_ms / 1e3:.3f} | {run_ms * 1e3 / tasks:.2f} |", flush=True)


def _replay(work: Path, artifact: Path, repeat: int, *options: str) -> tuple[int, float, float]:
    """Tasks, and the medians of process and run time in milliseconds."""
    build = [sys.executable, "-m", "SCons", "-Q", "build", f"JIT={artifact}"]
    subprocess.run(build, cwd=work, env=_environment(), stdout=subprocess.DEVNULL, check=True)
    output = work / "build" / "a2a3sim" / artifact.name
    words = [sys.executable, "-m", "pypto_build.replay", str(artifact), "--platform", "a2a3sim"]
    words += ["--build-dir", str(output), "--embedded", str(module_path(find_compiler())), *options]
    process, run = [], []
    for _ in range(repeat):
        start = time.perf_counter()
        subprocess.run(words, env=_environment(), stdout=subprocess.DEVNULL, check=True)
        process.append(time.perf_counter() - start)
        run.append(read_verdict(output / "verdict.json").run_s)
    tasks = read_verdict(output / "verdict.json").tasks
    return tasks, 1e3 * statistics.median(process), 1e3 * statistics.median(run)


def _peer(artifact: Path, repeat: int, command: str, pattern: str) -> tuple[str, str]:
    if not command:
        return "", ""
    process, run = [], []
    for _ in range(repeat):
        start = time.perf_counter()
        words = [word.format(artifact=artifact) for word in shlex.split(command)]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            return "failed", "failed"
        process.append(time.perf_counter() - start)
        run += [float(found) for found in re.findall(pattern, done.stdout)] if pattern else []
    return f"{1e3 * statistics.median(process):.1f}", f"{statistics.median(run):.2f}" if run else ""


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(_REPOSITORY)}


if __name__ == "__main__":
    sys.exit(main())
