"""Checks of a program after a pass. Each check names a line of the dump and what is wrong there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

from pypto_build.diagnose.passes.dumps import Dump, DumpedFunction
from pypto_build.diagnose.passes.values import DumpedValue, Flow
from pypto_build.pto.checks import CAPACITY

#: Passes after which every name is assigned once, and after which addresses are those of the memory.
_SSA = ("ConvertToSSA", "convert_to_ssa")
_ADDRESSES = ("AllocateMemoryAddr", "plan_addresses")
#: What a listing names besides the program's values.
_WORDS = {"sync_start", "self", "pl", "pld"}


@dataclass(frozen=True)
class Wrong:
    """`line` of the dump; `subject` is what the same thing is called in every later dump."""

    function: str
    line: int
    subject: str
    message: str
    hint: str


@dataclass(frozen=True)
class CheckedFunction:
    """One function after one pass. `passed` are the names of the passes that have run."""

    dump: Dump
    function: DumpedFunction
    flow: Flow
    passed: frozenset[str]
    arch: str

    def wrong(self, line: int, subject: str, message: str, hint: str) -> Wrong:
        """Something wrong in this function."""
        return Wrong(self.function.name, line, subject, message, hint)


def check_names(subject: CheckedFunction) -> Iterator[Wrong]:
    """Every name that is used is defined before."""
    known = _WORDS | set(subject.dump.functions)
    for name, line in subject.flow.undefined:
        if name not in known:
            yield subject.wrong(line, name, f"'{name}' is used and not defined before", "the pass lost its definition")


def check_once(subject: CheckedFunction) -> Iterator[Wrong]:
    """Once in single assignment, always in single assignment."""
    if subject.passed.isdisjoint(_SSA):
        return
    for name, line, first in subject.flow.again:
        yield subject.wrong(line, name, f"'{name}' is assigned again (first in line {first})", "one name, one value")


def check_calls(subject: CheckedFunction) -> Iterator[Wrong]:
    """Report calls of missing functions and calls with a wrong number of arguments."""
    functions = subject.dump.functions
    for name, line, count, method in subject.flow.calls:
        callee = functions.get(name)
        if callee is None and method:
            yield subject.wrong(line, name, f"'{name}' is called, and no function has this name", "the pass lost it")
        elif callee is not None and count >= 0 and count != len(callee.parameters):
            yield subject.wrong(
                line,
                name,
                f"'{name}' takes {len(callee.parameters)} arguments, {count} are passed",
                f"line {callee.line} has its parameters",
            )


def check_capacity(subject: CheckedFunction) -> Iterator[Wrong]:
    """Tiles lie within their memory."""
    if subject.passed.isdisjoint(_ADDRESSES):
        return
    for value in subject.flow.values.values():
        span = value.span
        limit = CAPACITY[subject.arch].get(span.space) if span else None
        if span and limit and span.start + span.size > limit:
            yield subject.wrong(
                value.line,
                value.name,
                f"'{value.name}' ends at byte {span.start + span.size} of {span.space}, which has {limit} on "
                f"{subject.arch}",
                "use smaller tiles, or fewer at once",
            )


def check_overlap(subject: CheckedFunction) -> Iterator[Wrong]:
    """No tile is written over one that is read later."""
    final = not subject.passed.isdisjoint(_ADDRESSES)
    groups: dict[str, list[DumpedValue]] = {}
    for value in subject.flow.values.values():
        if value.span and (final or value.span.base):
            groups.setdefault(value.span.space if final else value.span.base, []).append(value)
    same = _classes(subject.flow)
    for values in groups.values():
        values.sort(key=lambda value: value.begin)
        for index, one in enumerate(values):
            last = max((number for number, _ in one.uses), default=0)
            for other in values[index + 1 :]:
                if other.begin >= last:
                    break
                assert one.span and other.span
                if same[one.name] != same[other.name] and one.span.overlaps(other.span) and one.read_after(other):
                    yield subject.wrong(
                        other.line,
                        other.name,
                        f"'{other.name}' lies on '{one.name}' (line {one.line}), which is still read: {_bytes(other)} "
                        f"and {_bytes(one)} of {other.span.space}",
                        "the two need memory of their own",
                    )
                    break


def _bytes(value: DumpedValue) -> str:
    assert value.span is not None
    return f"bytes {value.span.start} to {value.span.start + value.span.size}"


def _classes(flow: Flow) -> dict[str, str]:
    """For each name one that stands for all that are the same bytes on purpose: views, and what loops carry."""
    parent = {name: name for name in flow.values}

    def find(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for name, value in flow.values.items():
        for one, other in pairwise([name, *(n for n in value.same if n in parent)]):
            parent[find(other)] = find(one)
    return {name: find(name) for name in parent}


def phase(passed: Collection[str]) -> tuple[bool, bool]:
    """Return two flags: whether names are assigned once after these passes, and whether addresses are final."""
    return not set(passed).isdisjoint(_SSA), not set(passed).isdisjoint(_ADDRESSES)


CHECKS: dict[str, Callable[[CheckedFunction], Iterator[Wrong]]] = {
    "undefined-name": check_names,
    "assigned-twice": check_once,
    "call": check_calls,
    "capacity": check_capacity,
    "overlap": check_overlap,
}
