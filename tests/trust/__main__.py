"""``python -m tests.trust --steps 3000 --seed 1 --jobs 2``: random steps, each replay compared with a fresh build."""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.trust.model import Found, Tally, attempt, explore, read_script, shrink
from tests.trust.tested import Tested

_CHUNK = 50


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: the exit status is 1 if there were faults."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    options = _parse(argv)
    home = Path(tempfile.mkdtemp(prefix="trust-"))
    try:
        tested = Tested.prepare(home / "shared", options.python)
        if options.script:
            fault = attempt(tested, *read_script(Path(options.script).read_text(encoding="utf-8")))
            print(fault or "no fault")
            return 1 if fault else 0
        return _explore(tested, options)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.trust", description=main.__doc__)
    parser.add_argument("--python", default="", help="the interpreter of the environment that is tested (this one)")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--faults", type=int, default=10, help="end after so many")
    parser.add_argument("--shrink", type=float, default=90, help="seconds to look for fewer steps to a fault")
    parser.add_argument("--script", help="a file of steps, as a fault prints them, to do instead")
    return parser.parse_args(argv)


def _explore(tested: Tested, options: argparse.Namespace) -> int:
    """Chunks of steps, each a seed of its own, by as many processes as there are jobs."""
    total, begun = Tally(), time.monotonic()
    chunks = [(tested, f"{options.seed}.{number}", options.shrink) for number in range(-(-options.steps // _CHUNK))]
    reported = 0
    with multiprocessing.Pool(options.jobs) as pool:
        for tally in pool.imap_unordered(_chunk, chunks):
            total.steps += tally.steps
            total.replays += tally.replays
            total.oracles += tally.oracles
            for fault in tally.faults:
                total.faults.append(fault)
                print(f"\nfault {len(total.faults)}, seed {fault.seed}: {fault}\n", flush=True)
            if total.steps >= reported + _CHUNK:
                reported = total.steps
                _tell(total, begun)
            if total.steps >= options.steps or len(total.faults) >= options.faults:
                pool.terminate()
                break
    print(f"{total.steps} steps, {len(total.faults)} faults")
    return 1 if total.faults else 0


def _tell(total: Tally, begun: float) -> None:
    spent = time.monotonic() - begun
    counts = f"{total.steps} steps, {total.replays} replays, {total.oracles} oracle runs, {len(total.faults)} faults"
    print(f"{counts}, {spent:.0f} s", flush=True)


def _chunk(arguments: tuple[Tested, str, float]) -> Tally:
    """One chunk of steps; after a fault the rest of it goes on in a new world."""
    tested, seed, seconds = arguments
    tally, again = Tally(), 0
    while tally.steps < _CHUNK:
        fault: Found | None = explore(tested, f"{seed}.{again}", _CHUNK - tally.steps, tally)
        again += 1
        if fault:
            tally.faults.append(_smaller(tested, fault, seconds))
    return tally


def _smaller(tested: Tested, fault: Found, seconds: float) -> Found:
    try:
        smaller: Any = shrink(tested, fault, seconds)
    except Exception as error:  # the fault that was found counts, whatever becomes of a smaller one
        print(f"cannot shrink: {error!r}", flush=True)
        return fault
    smaller.seed = fault.seed
    return smaller if isinstance(smaller, Found) else fault


if __name__ == "__main__":
    sys.exit(main())
