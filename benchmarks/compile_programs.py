"""Time of `python -m pypto_build.compiler` for each example, from the start of the process to the files.

    python -m benchmarks.compile_programs [--repeat 3]

The budget is one second a program. Goldens are left out: they are computed once, by torch. Prints the best of the
repetitions by the clock and of the processor, and what of it is compiling (the rest is Python's start and imports).
Exit status 1 over the budget.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pypto_build.compiler import compile_file

_BUDGET_S = 1.0
_EXAMPLES = Path(__file__).parents[1] / "examples"


def process_time(program: Path, repeat: int) -> tuple[float, float]:
    """Seconds that the command line takes for a new artifact, best of `repeat`: by the clock, and of the processor."""
    times, busy = [], []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as directory:
            command = [sys.executable, "-m", "pypto_build.compiler", str(program), "--no-golden", "--output", directory]
            used, start = _children(), time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - start)
            busy.append(_children() - used)
    return min(times), min(busy)


def _children() -> float:
    """Seconds of the processor that finished child processes took."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compile_time(program: Path, repeat: int) -> float:
    """Seconds that compiling takes inside a process that has everything imported."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        compile_file(str(program), "unused", "a2a3sim")
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    worst = 0.0
    print(f"{'program':<20}{'process':>10}{'of the CPU':>12}{'compiling':>12}")
    for program in sorted(_EXAMPLES.glob("*.py")):
        if program.stem == "make_data":
            continue
        whole, busy = process_time(program, repeat)
        worst = max(worst, whole)
        print(f"{program.stem:<20}{whole:>8.2f} s{busy:>10.2f} s{compile_time(program, repeat):>10.3f} s", flush=True)
    print(f"slowest {worst:.2f} s, budget {_BUDGET_S:.0f} s")
    return int(worst > _BUDGET_S)


if __name__ == "__main__":
    sys.exit(main())
