"""Pipes and flags at a step: what the device would know to be over, as the flags and barriers so far say."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_build.diagnose.step.session import Stepped
from pypto_build.diagnose.why.trace import Instruction


@dataclass
class Flag:
    """A flag between two pipes: the steps that set it last and that waited for it then, -1 where none has."""

    source: str
    target: str
    id: int
    set: int = -1
    waited: int = -1


@dataclass
class Pipe:
    """A pipe: how many instructions it was given, the last step, and up to which step it is ordered after others."""

    name: str
    count: int
    last: int
    knows: list[tuple[str, int]]


def flags_at(now: Stepped, at: int) -> list[Flag]:
    """All flags that steps up to this one set or wait for: those that are set and not waited for first."""
    found: dict[tuple[str, str, int], Flag] = {}
    for step in now.steps[: at + 1]:
        event = step.event
        if isinstance(event, Instruction) or event.name not in ("set_flag", "wait_flag"):
            continue
        flag = found.setdefault((event.source, event.target, event.id), Flag(event.source, event.target, event.id))
        if event.name == "set_flag":
            flag.set, flag.waited = step.number, -1
        else:
            if flag.waited >= 0:
                flag.set = -1  # it was used up
            flag.waited = step.number
    return sorted(found.values(), key=lambda flag: (flag.waited >= 0 and flag.set >= 0, flag.set))


def pipes_at(now: Stepped, at: int) -> list[Pipe]:
    """Pipes with instructions up to this step, in the order in which they began."""
    clocks: dict[str, dict[str, int]] = {}  # of each pipe, the last step of each pipe that it comes after
    flags: dict[tuple[str, str, int], dict[str, int]] = {}
    found: dict[str, Pipe] = {}
    for step in now.steps[: at + 1]:
        event = step.event
        if isinstance(event, Instruction):
            pipe = found.setdefault(event.pipe, Pipe(event.pipe, 0, step.number, []))
            pipe.count, pipe.last = pipe.count + 1, step.number
            clocks.setdefault(event.pipe, {})[event.pipe] = step.number
        elif event.name == "set_flag":
            flags[event.source, event.target, event.id] = dict(clocks.get(event.source, {}))
        elif event.name == "wait_flag":
            _merge(clocks.setdefault(event.target, {}), flags.pop((event.source, event.target, event.id), {}))
        elif event.name == "pipe_barrier" and event.source == "ALL":
            everything: dict[str, int] = {}
            for clock in clocks.values():
                _merge(everything, clock)
            for clock in clocks.values():
                _merge(clock, everything)
    for name, pipe in found.items():
        pipe.knows = [(other, number) for other, number in clocks[name].items() if other != name]
    return list(found.values())


def _merge(clock: dict[str, int], other: dict[str, int]) -> None:
    for name, number in other.items():
        clock[name] = max(clock.get(name, -1), number)
