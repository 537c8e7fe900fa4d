"""The null build of chains, program to test, beside the import of SCons in the same run.

    python -m benchmarks.chain [--programs 1 3 10] [--repeat 9]

For each size as many programs are generated, each with a reference and a test, and `scons test` builds them once. Then
the null build and `python -c 'import SCons.Script'` take turns. A row has the medians of seconds and of processor
seconds, which say more on a busy machine. Then it has the null build in imports, whole and for each artifact.
`scons test` is never handed over to the resident process. docs/dev/performance.md has the budgets.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

_REPOSITORY = Path(__file__).resolve().parents[1]
_IMPORT = [sys.executable, "-c", "import SCons.Script"]
_SCONS = [sys.executable, "-m", "SCons", "-Q", "test"]
_SCRIPT = """from pypto_build.rules import pypto
env = Environment(tools=[pypto])
for name in {names}:
    env.ReplayTest(name=f"{{name}}_test", artifact=env.PtoProgram(name=name, source=f"{{name}}.py"), rtol=1e-3)
"""
_PROGRAM = """import pypto_build.compiler.language as pl

M = pl.Tensor[[16, 16], pl.FP32]


@pl.jit.incore
def scaled(x: M, y: pl.Out[M]):
    pl.store(pl.load(x, [0, 0], [16, 16]) * {factor}, [0, 0], y)


@pl.jit.incore
def moved(x: M, y: pl.Out[M]):
    pl.store(pl.load(x, [0, 0], [16, 16]) + 1.0, [0, 0], y)


@pl.jit
def chain(x: M, y: pl.Out[M]):
    t = pl.create_tensor([16, 16], pl.FP32)
    scaled(x, t)
    moved(t, y)


@chain.reference
def reference(x, y):
    y[:] = x * {factor} + 1
"""


def write_workspace(directory: Path, programs: int) -> None:
    """Write programs that differ, and the SConstruct."""
    names = [f"p{number:03d}" for number in range(programs)]
    for number, name in enumerate(names):
        (directory / f"{name}.py").write_text(_PROGRAM.format(factor=float(number + 2)), encoding="utf-8")
    (directory / "SConstruct").write_text(_SCRIPT.format(names=names), encoding="utf-8")


def run(directory: Path, command: Sequence[str]) -> tuple[float, float]:
    """Run a command; returns seconds and processor seconds, those of the processes that it waited for included."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(_REPOSITORY),
        "PYPTO_BUILD_SERVER": "0",
        "XDG_RUNTIME_DIR": str(directory),
        "PYPTO_BUILD_STORE": str(directory / "store"),
    }
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - start, os.times()
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, used


def measure(directory: Path, programs: int, repeat: int) -> list[str]:
    """Return the rows of one size."""
    write_workspace(directory, programs)
    run(directory, _SCONS)
    run(directory, _SCONS)
    imports, alone = zip(*((run(directory, _IMPORT), run(directory, _SCONS)) for _ in range(repeat)), strict=True)
    unit, unit_used = (median(times) for times in zip(*imports, strict=True))
    seconds, used = (median(column) for column in zip(*alone, strict=True))
    ratio = seconds / unit
    processor = f"{used:.2f} ({used / unit_used:.1f})"
    return [
        f"| {programs} | import | {unit:.2f} | {unit_used:.2f} | 1.0 | |",
        f"| {programs} | null build | {seconds:.2f} | {processor} | {ratio:.1f} | {ratio / programs:.2f} |",
    ]


def main() -> int:
    """Measure and print the table, the rows of a size as soon as they are known."""
    parser = argparse.ArgumentParser(description="null builds of chains, program to test")
    parser.add_argument("--programs", type=int, nargs="*", default=[1, 3, 10], help="numbers of programs")
    parser.add_argument("--repeat", type=int, default=9, help="how often each is measured")
    options = parser.parse_args()
    print("| programs | what | seconds | processor s (imports) | imports | imports an artifact |", flush=True)
    print("|---|---|---|---|---|---|", flush=True)
    for programs in options.programs:
        with tempfile.TemporaryDirectory(prefix="chain") as directory:
            print(*measure(Path(directory), programs, options.repeat), sep="\n", flush=True)
    print(f"load of the machine at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
