"""Distributed artifacts replayed here and run by upstream's simulation, in turns.

    python -m benchmarks.ranks_upstream ARTIFACT ... --python EXE [--rounds 21]

EXE is an interpreter that has PyPTO, and simpler built for a2a3sim; it gets this environment. Each artifact has its
inputs in data/in. Wanted: a tenth of upstream's processor time for each of

- first: a command that compiles the kernels and runs them;
- again: the same command a second time;
- resident: the same through the resident process, beside upstream's command, which has nothing of the kind;
- round: one run more in a process that has everything loaded.

Seconds are processor time of all processes, and in brackets wall-clock time. Wall-clock time counts where a process
that was there before does the command. Ranks are those that the artifact was compiled for. Both sides are asked for the
same outputs, bit for bit, and a row says so if they are not.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact.distributed import load_distributed

_WANTED = 10.0
#: What upstream's interpreter executes: a first run, then runs in the same process, then what they came to.
_UPSTREAM = """
import json, resource, sys, time
from pathlib import Path
import torch
from pypto.runtime import RunConfig
from pypto.runtime.distributed_runner import execute_distributed_compiled
root, rounds, out = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
names = [p["name"] for p in json.loads((root / "distributed_meta.json").read_text())["params"]]
def used():
    whose = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(w.ru_utime + w.ru_stime for w in whose)
given = [torch.load(root / "data" / "in" / f"{name}.pt") for name in names]
def run():
    tensors = [each.clone() for each in given]
    execute_distributed_compiled(root, tensors, config=RunConfig(platform="a2a3sim"))
    return tensors
found = run()
before, begun = used(), time.monotonic()
for _ in range(rounds):
    found = run()
took = time.monotonic() - begun
for name, tensor in zip(names, found):
    torch.save(tensor, out / f"{name}.pt")
print(json.dumps([(used() - before) / max(rounds, 1), took / max(rounds, 1)]))
"""
_SAME = """
import sys, torch
from pathlib import Path
here, there = map(Path, sys.argv[1:])
pairs = [(torch.load(f), torch.load(there / f.name)) for f in here.glob("*.pt")]
print(all(torch.equal(ours, theirs.reshape(ours.shape)) for ours, theirs in pairs))
"""


@dataclass(frozen=True)
class Cost:
    """Processor seconds of a command and all that it started, and its wall-clock seconds."""

    processor: float
    wall: float

    def __str__(self) -> str:
        return f"{self.processor:.2f} ({self.wall:.2f})" if self.processor else f"({self.wall:.2f})"

    def times(self, other: Cost) -> float:
        """Return the ratio of this cost to another."""
        return self.processor / other.processor if other.processor > 0 else self.wall / other.wall


def _cost(command: Sequence[str], environment: Mapping[str, str], directory: Path) -> tuple[Cost, str]:
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    run = subprocess.run(command, check=False, capture_output=True, text=True, env=dict(environment), cwd=directory)
    wall, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if run.returncode != 0:
        errors = [line for line in (run.stdout + run.stderr).splitlines() if "rror" in line]
        raise RuntimeError(f"{Path(command[0]).name} ended with {run.returncode}: {errors[-1] if errors else ''}")
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Cost(used, wall), run.stdout


def _resident(words: Sequence[str], environment: Mapping[str, str], directory: Path) -> Cost:
    """The median of commands that a process stands ready for."""
    command = [sys.executable, "-m", "pypto_build.resident.client", *words]
    walls = [_cost(command, environment, directory)[0].wall for _ in range(11)]
    return Cost(0.0, statistics.median(walls[2:]))


def measure(artifact: Path, python: str, rounds: int, directory: Path) -> tuple[dict[str, tuple[Cost, Cost]], bool]:
    """(upstream's, ours) for each of the three, and whether the outputs are the same."""
    out = directory / "upstream"
    out.mkdir(parents=True)
    script = [python, "-c", _UPSTREAM, str(artifact)]
    words = ["replay", str(artifact), "-p", "a2a3sim", "--force", "ALLOW_UNCHECKED=1", "TIMEOUT=300"]
    ours = [sys.executable, "-m", "pypto_build.cli", *words]
    here = {**os.environ, "PYPTO_BUILD_STORE": str(directory / "store")}
    here.pop("PTOAS_ROOT", None)
    costs: dict[str, tuple[Cost, Cost]] = {}
    costs["first"] = _cost([*script, "0", str(out)], os.environ, directory)[0], _cost(ours, here, directory)[0]
    again, printed = _cost([*script, str(rounds), str(out)], os.environ, directory)
    processor, wall = json.loads(printed.splitlines()[-1])
    costs["again"] = (
        Cost(again.processor - rounds * processor, again.wall - rounds * wall),
        _cost(ours, here, directory)[0],
    )
    costs["resident"] = costs["again"][0], _resident(words, here, directory)
    many, one = (_cost([*ours, f"ROUNDS={number}"], here, directory)[0] for number in (rounds + 1, 1))
    costs["round"] = (
        Cost(processor, wall),
        Cost((many.processor - one.processor) / rounds, (many.wall - one.wall) / rounds),
    )
    actual = next((directory / "build").glob("**/actual"))
    _, same = _cost([python, "-c", _SAME, str(actual), str(out)], os.environ, directory)
    return costs, same.strip() == "True"


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each artifact; 1 if one costs more than a tenth of upstream's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("artifacts", nargs="+", type=Path, metavar="ARTIFACT")
    parser.add_argument("--python", required=True, metavar="EXE", help="an interpreter with PyPTO and simpler")
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args(argv)
    print(f"{'artifact':28s} {'ranks':>5s} {'':8s} {'upstream':>16s} {'here':>16s} {'times':>6s}", flush=True)
    slow = 0
    for artifact in options.artifacts:
        ranks = load_distributed(artifact).ranks
        with tempfile.TemporaryDirectory() as directory:
            try:
                costs, same = measure(artifact.resolve(), options.python, options.rounds, Path(directory))
            except RuntimeError as error:
                print(f"{artifact.name:28s} {ranks:5d} {error}", flush=True)
                slow += 1
                continue
        for name, (theirs, ours) in costs.items():
            times = theirs.times(ours)
            slow += times < _WANTED
            row = f"{artifact.name:28s} {ranks:5d} {name:8s} {theirs!s:>16s} {ours!s:>16s} {times:6.1f}"
            print(f"{row}{'' if same else '  other outputs'}", flush=True)
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
