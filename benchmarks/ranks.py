"""Processor time of one program on 2 to 16 ranks of this machine.

    python -m benchmarks.ranks [--ranks 2 4 8 16] [--rounds 9] [--steps 200] [--work 20000]

Each rank computes, puts a row to its right neighbour, notifies it and waits for the left one, `--steps` times. So the
total work grows with the number of ranks. The budget: processor time of each rank is at most twice that with two ranks,
though there are more ranks than cores. Seconds are medians over the rounds of one process, which
starts its ranks anew for each; processor time is that of all its processes, divided by rounds and ranks.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pypto_build.replay.verdict import read_verdict
from tests.replay.chips import Chips

_BUDGET = 2.0
_STEP = """
    int right = (rank + 1) % ranks;
    float sum = 0;
    for (int step = 1; step <= STEPS; ++step) {
        for (int i = 0; i < WORK; ++i) sum = sum * 0.999f + x[i % count];
        peer(data, right)[step % count] = sum;
        notify(peer(signal, right), 1);
        wait(signal, step);
    }
    y[0] = sum - sum;
"""


def measure(directory: Path, ranks: int, rounds: int, steps: int, work: int) -> tuple[float, float]:
    """Seconds of a round, and processor seconds of a round for each rank."""
    body = _STEP.replace("STEPS", str(steps)).replace("WORK", str(work))
    program = Chips(directory / str(ranks), ranks, {"step": body}, [("step", rank) for rank in range(ranks)])
    command = program.command("--rounds", str(rounds), "--timeout", "300", "--zero-fill")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(run.stdout + run.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return read_verdict(program.out / "verdict.json").run_s, used / rounds / ranks


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line for each number of ranks; 1 if they cost more than wanted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--work", type=int, default=20000)
    options = parser.parse_args(argv)
    print(f"{'ranks':>5s} {'messages':>9s} {'round ms':>9s} {'CPU ms/rank':>12s} {'times':>6s}")
    first = worst = 0.0
    with tempfile.TemporaryDirectory() as directory:
        for ranks in options.ranks:
            seconds, used = measure(Path(directory), ranks, options.rounds, options.steps, options.work)
            first = first or used
            worst = max(worst, used / first)
            row = f"{ranks:5d} {ranks * options.steps:9,d} {seconds * 1e3:9.1f} {used * 1e3:12.1f} {used / first:6.2f}"
            print(row, flush=True)
    print(f"wanted: at most {_BUDGET:g} times the processor time that a rank takes among {options.ranks[0]}")
    return int(worst > _BUDGET)


if __name__ == "__main__":
    sys.exit(main())
