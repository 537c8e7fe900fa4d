"""Kills runs at every line they print and at random moments: ``python -m tests.trust.kills --count 500``.

Each run is killed between two edits. After that a replay says what a fresh build says, and says so again.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.trust.commands import Command, Done
from tests.trust.oracle import Oracle
from tests.trust.space import MISMATCH, MODULE, PASS, PROGRAM, Space
from tests.trust.tested import Tested
from tests.trust.world import Fault, World

_LONGEST_S = 120.0
# What is run, on which artifact.
VERBS = {
    "build": "chain",
    "replay": "chain",
    "report": "chain",
    "pack": "chain",
    "splice": "module",
    "replay of a module": "module",
    "compile": "program",
}


@dataclass(frozen=True)
class Point:
    """The point at which a run is killed: after so many lines, or after a part of its time."""

    line: int = 0
    part: float | None = None

    def __str__(self) -> str:
        return f"after {self.line} lines" if self.part is None else f"at {self.part:.0%} of the time"


@dataclass(frozen=True)
class Kill:
    """One run to be killed; what is edited before and after; whether everything built before is gone."""

    verb: str
    point: Point
    before: str
    after: str
    cold: bool

    def __str__(self) -> str:
        state = "from nothing" if self.cold else "after other runs"
        return f"{self.verb}, {state}, killed {self.point}; edited to {self.before}, then to {self.after}"


class Chain:
    """Runs on the artifact of plain C++, or on the one with a module; a world judges."""

    def __init__(self, tested: Tested, directory: Path, kind: str) -> None:
        self.world = World(tested, directory, kind, Oracle(tested))
        self.texts = ["right", "wrong", "comment", "broken"]

    @property
    def space(self) -> Space:
        """The workspace."""
        return self.world.space

    def edit(self, text: str) -> None:
        """Edit the kernel, or the module."""
        self.world.step_edit("module" if self.world.kind == "module" else "twice", text)

    def words(self, verb: str) -> list[str]:
        """The command to be killed."""
        return self.space.words(verb.partition(" ")[0])

    def clear(self) -> None:
        """Remove everything built."""
        shutil.rmtree(self.space.root / "build", ignore_errors=True)
        self.world.step_delete("cache")

    def judge(self) -> None:
        """Raises a `Fault` if what is said now is wrong; twice, since the first may leave something behind."""
        self.world.damaged = False
        self.world.step_replay()
        self.world.step_replay()


class Program:
    """Compilations of a program; its reference stays as it is, so a program that subtracts fails."""

    def __init__(self, tested: Tested, directory: Path) -> None:
        self.space = Space(directory / "w", tested, tested.new_cache(directory / "cache"), name=MODULE)
        self.space.write("SConstruct", "from pypto_build.rules import pypto\n\nenv = Environment(tools=[pypto])\n")
        self.texts = ["right", "wrong", "comment"]
        self.expected = PASS

    def edit(self, text: str) -> None:
        """Edit the program."""
        changed = {"right": PROGRAM, "wrong": PROGRAM.replace("x + y", "x - y"), "comment": f"# a comment\n{PROGRAM}"}
        self.space.write("sum.py", changed[text])
        self.expected = MISMATCH if text == "wrong" else PASS

    def words(self, verb: str) -> list[str]:
        """The command to be killed."""
        return [str(self.space.tested.python), "-m", "SCons", "-Q", verb, "PROGRAM=sum.py"]

    def clear(self) -> None:
        """Remove everything built."""
        for directory in ("build", "build_output"):
            shutil.rmtree(self.space.root / directory, ignore_errors=True)

    def judge(self) -> None:
        """Raises a `Fault` if what is said now is wrong."""
        for _ in range(2):
            compiled = self.space.scons("compile", "PROGRAM=sum.py", longest_s=_LONGEST_S)
            if compiled.status or compiled.late:
                raise Fault(f"cannot compile any more\n{compiled}")
            replayed = self.space.outcome_of(self.space.run("replay", longest_s=_LONGEST_S))
            if replayed.outcome.exit != self.expected:
                raise Fault(f"status {replayed.outcome.exit}, not {self.expected}\n{compiled}\n{replayed.done}")


@dataclass
class Killer:
    """Workspaces that are used for many kills, one for each kind; a new one after a fault."""

    tested: Tested
    home: Path
    made: int = 0
    _runs: dict[str, Chain | Program] = field(default_factory=dict)
    _whole: dict[str, Done] = field(default_factory=dict)
    _before: dict[str, list[Kill]] = field(default_factory=dict)  # the kills that a workspace has seen

    def runs(self, verb: str) -> Chain | Program:
        """The workspace for a verb."""
        kind = VERBS[verb]
        if kind not in self._runs:
            self.made += 1
            directory = self.home / f"{kind}{self.made}"
            directory.mkdir(parents=True)
            new = Program(self.tested, directory) if kind == "program" else Chain(self.tested, directory, kind)
            self._runs[kind] = new
        return self._runs[kind]

    def whole(self, verb: str) -> Done:
        """A run that is not killed, from nothing: how many lines, how much time."""
        if verb not in self._whole:
            runs = self.runs(verb)
            runs.clear()
            runs.edit("right")
            self._whole[verb] = Command(runs.words(verb), runs.space.root, runs.space.environment()).end(_LONGEST_S)
        return self._whole[verb]

    def fault(self, kill: Kill) -> str:
        """Return the fault of the run after this kill; empty if there is none."""
        runs = self.runs(kill.verb)
        if kill.cold:
            runs.clear()
        runs.edit(kill.before)
        done = _killed(runs.words(kill.verb), runs.space, kill.point, self.whole(kill.verb).seconds)
        runs.edit(kill.after)
        try:
            if done.left or done.late:
                raise Fault(f"goes on: {done.left}")
            runs.judge()
        except Fault as fault:
            del self._runs[VERBS[kill.verb]]
            before = "\n".join(map(str, self._before.pop(VERBS[kill.verb], ())))
            return f"{kill}\n{fault}\n\nkilled:\n{done}\n\nbefore that, in the same workspace:\n{before}"
        self._before.setdefault(VERBS[kill.verb], []).append(kill)
        return ""


def _killed(words: Sequence[str], space: Space, point: Point, whole_s: float) -> Done:
    """Run a command and kill it there; it may have ended before."""
    count = 0

    def see(_: str) -> bool:
        nonlocal count
        count += 1
        return point.part is None and count >= point.line

    command = Command(words, space.root, space.environment(), see)
    if point.part is not None or point.line == 0:
        time.sleep((point.part or 0) * whole_s)
        command.kill()
    return command.end(_LONGEST_S)


def kills(killer: Killer, count: int, seed: str, verbs: Sequence[str] = tuple(VERBS)) -> Iterator[Kill]:
    """Every line of every command in a random order, and a random moment after every second of these."""
    chosen = random.Random(seed)
    lines = [(verb, Point(line)) for verb in verbs for line in range(len(killer.whole(verb).output.splitlines()) + 1)]
    chosen.shuffle(lines)
    for number in range(count):
        verb, point = chosen.choice(verbs), Point(part=round(chosen.random(), 3))
        if lines and number % 3 < 2:
            verb, point = lines.pop()
        texts = killer.runs(verb).texts
        yield Kill(verb, point, chosen.choice(texts), chosen.choice(texts), cold=chosen.random() < 0.6)


@contextmanager
def killing(tested: Tested, home: Path) -> Iterator[Killer]:
    """A killer whose workspaces go with it."""
    try:
        yield Killer(tested, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def many(
    killer: Killer, count: int, seed: str, tell: Callable[[str], object], verbs: Sequence[str] = tuple(VERBS)
) -> list[str]:
    """Do so many kills; the faults."""
    faults, begun = [], time.monotonic()
    for number, kill in enumerate(kills(killer, count, seed, verbs), 1):
        fault = killer.fault(kill)
        if fault:
            faults.append(fault)
            tell(f"\nfault {len(faults)}: {fault}\n")
        if number % 50 == 0:
            tell(f"{number} kills, {len(faults)} faults, {time.monotonic() - begun:.0f} s")
    return faults


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: the exit status is 1 if there were faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.trust.kills", description=main.__doc__)
    parser.add_argument("--python", default="", help="the interpreter of the environment that is tested (this one)")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", default="1")
    options = parser.parse_args(argv)
    home = Path(tempfile.mkdtemp(prefix="trust-kills-"))
    try:
        tested = Tested.prepare(home / "shared", options.python)
        with killing(tested, home / "kills") as killer:
            faults = many(killer, options.count, options.seed, lambda text: print(text, flush=True))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(f"{options.count} kills, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
