"""Random steps in worlds, one after the other; a fault is told with as few steps that lead to it as can be found."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.trust.compilers import QUESTIONS, STATES
from tests.trust.damage import KINDS
from tests.trust.oracle import Oracle
from tests.trust.tested import Tested
from tests.trust.world import PACKAGES, SURROUNDINGS, Fault, Step, World

#: A world ends after so many steps.
LONGEST = 40

_PATHS = ("", "one", "two", "one two", "two one")
_EDITS = ("probe", "path", "surroundings", "edit", "undo", "rename", "switch", "package", "touch")
_RUNS = ("replay", "scons", "resident", "watch", "twice", "elsewhere", "while_compiling")


@dataclass(frozen=True)
class Theme:
    """Files with what they hold by turns, options that have to do with them, and the artifact they are of."""

    held: dict[str, str]
    options: tuple[str, ...] = ()
    kind: str = "chain"


THEMES = (
    Theme({"twice": "right wrong", "golden": "right wrong near absent"}, ("tolerant", "again")),
    Theme({"twice": "right wrong comment wrong_comment same broken", "plus_one": "right wrong comment"}),
    Theme({"twice": "near right", "golden": "right near", "input": "right wrong"}, ("tolerant", "shuffled")),
    Theme({"twice": "header macro comment_inside", "scale": "right wrong wrong same absent"}),
    Theme({"twice": "macro", "scale": "right wrong", "plus_one": "header right"}, ("checked",)),
    Theme({"twice": "searched", "scale1": "absent right wrong next", "scale2": "right wrong"}, ("searched", "system")),
    Theme({"twice": "optional pasted", "optional": "absent present other"}),
    Theme({"twice": "default", "forced": "right wrong", "flags": "right wrong empty"}, ("forced", "flags")),
    Theme({"twice": "linked", "linked_a": "right same", "linked_b": "wrong right"}),
    Theme({"twice": "extra default", "compiler": "none extra scale", "plus_one": "right heavy"}, ("compiler", "extra")),
    Theme({"twice": "sized seeing limited default", "plus_one": "right comment"}, ("named", "braced")),
    Theme({"twice": "default", "question": " ".join(QUESTIONS)}, ("asking",)),
    Theme({"chain": "right wrong comment larger", "manifest": "right comment wrong threads"}),
    Theme({"twice": "right wrong", "more_golden": "right wrong absent", "input": "right wrong"}, ("more",)),
    Theme({}, ("torch",), "module"),
    Theme(
        {"send": "right wrong comment broken", "receive": "right wrong", "golden": "right wrong absent"},
        ("weak",),
        "ranks",
    ),
    Theme({"send": "header right", "scale": "right wrong absent", "sender": "right wrong comment"}, (), "ranks"),
    Theme({"driver": "right wrong comment broken", "input": "right wrong", "send": "right wrong"}, (), "ranks"),
    Theme({"manifest": "right wrong comment", "meta": "right spaced wrong"}, ("shuffled", "checked"), "ranks"),
)


def themes_of(kind: str) -> list[int]:
    """The numbers of the themes of one kind of artifact."""
    return [number for number, theme in enumerate(THEMES) if theme.kind == kind]


@dataclass
class Found:
    """A fault: what was said, and the steps that lead to it."""

    text: str
    kind: str
    steps: list[Step]
    seed: str = ""

    def __str__(self) -> str:
        return f"{self.text}\n\nsteps, for --script:\n{script(self.kind, self.steps)}"


@dataclass
class Tally:
    """Counts of the steps so far, and the faults that they have shown."""

    steps: int = 0
    replays: int = 0
    oracles: int = 0
    faults: list[Found] = field(default_factory=list)


def script(kind: str, steps: list[Step]) -> str:
    """Steps as lines of JSON."""
    return "\n".join(json.dumps(line) for line in [["world", {"kind": kind}], *steps])


def read_script(text: str) -> tuple[str, list[Step]]:
    """The kind of world, and the steps, that `script` wrote."""
    lines = [json.loads(line) for line in text.splitlines() if line.strip()]
    return lines[0][1]["kind"], [(name, arguments) for name, arguments in lines[1:]]


@contextmanager
def world_of(tested: Tested, oracle: Oracle, kind: str) -> Iterator[World]:
    """A world in a directory of its own, which goes with it."""
    directory = Path(tempfile.mkdtemp(prefix="world-", dir=tested.home))
    world = None
    try:
        world = World(tested, directory, kind, oracle)
        yield world
    finally:
        if world:
            world.close()
        shutil.rmtree(directory, ignore_errors=True)


class Chooser:
    """Chooses the next step of a world by a seed. A world has a theme or two: few files with few texts by turns."""

    def __init__(self, seed: str, theme: Theme | None = None) -> None:
        self._random = random.Random(seed)
        themes = [theme] if theme else self._random.sample(THEMES, self._random.choice([1, 1, 2]))
        self.kind = themes[0].kind
        themes = [each for each in themes if each.kind == self.kind]
        self._held: dict[str, list[str]] = {}
        self._options: list[str] = []
        for theme in themes:
            self._options += theme.options
            for file, variants in theme.held.items():
                self._held[file] = [*self._held.get(file, []), *variants.split()]
        self._opening: list[Step] = [
            ("edit", {"file": file, "variant": variants[0]}) for file, variants in self._held.items()
        ]

    def reseed(self, seed: str) -> None:
        """Make the next choices follow from ``seed``."""
        self._random.seed(seed)

    def step(self, world: World, last: str) -> Step:
        """The next step: at first those that set the theme; after an edit or an attack mostly a replay."""
        if self._opening:
            return self._opening.pop()
        draw = self._random.random()
        if last not in _RUNS and draw < (0.65 if last in _EDITS else 0.4):
            return "replay", {"option": self._option(world)}
        draw = self._random.random()
        if draw < 0.55:
            return self._edit(world)
        if draw < 0.75:
            return self._attack(world)
        return self._run(world)

    def _option(self, world: World) -> str:
        draw = self._random.random()
        if draw < 0.6 and self._options:
            return self._random.choice(self._options)
        return "plain" if draw < 0.85 else self._random.choice(list(world.options))

    def _edit(self, world: World) -> Step:
        draw = self._random.random()
        if "question" in self._held and draw < 0.6:
            if draw < 0.15:
                return "path", {"first": self._random.choice(_PATHS)}
            return "probe", {"state": self._random.choice(STATES)}
        if "seeing" in self._held.get("twice", ()) and draw < 0.5:
            return self._surroundings()
        draw = self._random.random()
        if draw < 0.12:
            return "undo", {}
        if draw < 0.15:
            return "touch", {"new": self._random.random() < 0.5}
        if draw < 0.18 or (draw < 0.4 and "linked_a" in self._held):
            return "switch", {"target": self._random.choice("ab")}
        if draw < 0.21 and world.kind == "chain":
            file, to = self._random.sample(["scale", "scale1", "scale2", "forced"], 2)
            return "rename", {"file": file, "to": to}
        if draw < 0.25:
            return "package", {"version": self._random.choice(["own", *PACKAGES])}
        if world.kind == "module":
            return self._module_edit(world)
        if self._random.random() < 0.9:
            name = self._random.choice(list(self._held))
            variant = self._other(world, name, self._held[name])
        else:
            name = self._random.choice(list(world.sources))
            variant = self._other(world, name, list(world.sources[name].variants))
        how = self._random.choices(["write", "rename", "link", "symlink"], [6, 3, 1, 1])[0]
        return "edit", {"file": name, "variant": variant, "how": how, "keep_time": self._random.random() < 0.3}

    def _surroundings(self) -> Step:
        """Other variables, or a selection."""
        if self._random.random() < 0.3:
            return "select", {"what": self._random.choice(["exact", ",,,", "@nothing.txt"])}
        names = self._random.sample(SURROUNDINGS, self._random.randrange(4))
        values = {"HOME": "/nowhere", "PTO2_RING_HEAP": "1048576"}
        return "surroundings", {"variables": {name: values.get(name, "1") for name in names}}

    def _module_edit(self, world: World) -> Step:
        """Module and kernel are never both edited: which counts is a question that a fresh build asks, too."""
        name, other = self._random.sample(["kernel", "module"], 2)
        if not world.holds(other, "right"):
            return "edit", {"file": other, "variant": "right"}
        return "edit", {"file": name, "variant": self._other(world, name, list(world.sources[name].variants))}

    def _other(self, world: World, name: str, variants: list[str]) -> str:
        """One that the file does not hold now, where there is one."""
        return self._random.choice([variant for variant in variants if not world.holds(name, variant)] or variants)

    def _attack(self, world: World) -> Step:
        draw = self._random.random()
        area = self._random.choices(["out", "cache"], [3, 2])[0]
        files = world.files(area)
        if draw < 0.25:
            return "keep", {}
        if draw < 0.5:
            which: dict[str, Any] = {"number": self._random.randrange(4), "area": area}
            one = files and self._random.random() < 0.7
            return "restore", {**which, "file": self._random.choice(files)} if one else which
        if draw < 0.65 or not files:
            one = files and self._random.random() < 0.7
            return "delete", {"area": area, "file": self._random.choice(files)} if one else {"area": area}
        kind = self._random.choice(list(KINDS))
        return "damage", {"area": area, "file": self._random.choice(files), "kind": kind}

    def _run(self, world: World) -> Step:
        draw, option = self._random.random(), self._option(world)
        if draw < 0.2:
            return "replay", {"option": option}
        if draw < 0.33:
            return "resident", {"option": option}
        if draw < 0.47:
            return "scons", {"option": option, "handed": self._random.random() < 0.7}
        if draw < 0.55 and world.kind != "module":
            names = self._random.choices(list(self._held), k=self._random.randrange(1, 4))
            edits = [(name, self._random.choice(self._held[name])) for name in names]
            return "watch", {"option": option, "edits": edits}
        if draw < 0.75:
            delay = round(self._random.random() ** 2 * 0.5, 3)
            return "killed", {"option": option, "line": self._random.randrange(10), "delay": delay}
        if draw < 0.83:
            delay = round(self._random.random() * 0.5, 3)
            return "twice", {"first": option, "second": self._option(world), "delay": delay}
        if draw < 0.93 or world.kind != "chain":
            probe = {"probe": self._random.choice(STATES)} if "question" in self._held else {}
            directory = self._random.choice(["elsewhere", "e", "a/much/longer/place"])
            return "elsewhere", {"option": option, **probe, "name": directory}
        return "while_compiling", {"variant": self._random.choice(["right", "wrong", "same"])}


def explore(tested: Tested, seed: str, count: int, tally: Tally, theme: Theme | None = None) -> Found | None:
    """Do ``count`` steps in worlds that ``seed`` decides, and ``theme`` if given; the first fault."""
    oracle = Oracle(tested)
    done = 0
    while done < count:
        chooser = Chooser(f"{seed}/{done}", theme)
        steps: list[Step] = []
        kind = chooser.kind
        with world_of(tested, oracle, kind) as world:
            while done < count and len(steps) < LONGEST:
                steps.append(chooser.step(world, steps[-1][0] if steps else ""))
                before = world.replays, oracle.built
                try:
                    world.do(steps[-1])
                except Fault as fault:
                    return Found(str(fault), kind, steps, f"{seed}/{done}")
                finally:
                    done += 1
                    tally.steps += 1
                    tally.replays += world.replays - before[0]
                    tally.oracles += oracle.built - before[1]
    return None


def attempt(tested: Tested, kind: str, steps: list[Step]) -> Found | None:
    """Do these steps in a new world; the fault, with the steps up to it."""
    done = 0
    with world_of(tested, Oracle(tested), kind) as world:
        try:
            for step in steps:
                done += 1
                world.do(step)
        except Fault as fault:
            return Found(str(fault), kind, steps[:done])
    return None


def shrink(tested: Tested, fault: Found, longest_s: float) -> Found:
    """The same fault, or another, with as few steps as can be found in that time."""
    deadline = time.monotonic() + longest_s
    size = max(1, len(fault.steps) // 2)
    while size:
        start = 0
        while start < len(fault.steps) and time.monotonic() < deadline:
            fewer = fault.steps[:start] + fault.steps[start + size :]
            smaller = attempt(tested, fault.kind, fewer)
            if smaller:
                fault = smaller
            else:
                start += size
        size //= 2
    return fault
