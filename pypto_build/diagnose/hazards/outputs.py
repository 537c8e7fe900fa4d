"""Findings on elements of the outputs that no task writes, at the submission, loop, view or store that misses them."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

import numpy as np

from pypto_build.artifact.cpp.orchestration import Submit
from pypto_build.artifact.cpp.syntax import loops
from pypto_build.diagnose.findings import Finding, Related
from pypto_build.diagnose.hazards.context import Array, Context, cut
from pypto_build.diagnose.hazards.record import REGION, OutputHole
from pypto_build.facts.accesses import WRITE


@dataclass(frozen=True)
class _Missing:
    """The unwritten part of an output.

    ``begin`` is the address of its first byte, ``end`` is one past its last. ``writers`` are the tasks that write the
    rest.
    """

    hole: OutputHole
    begin: int
    end: int
    writers: list[int]


@dataclass(frozen=True)
class _Blame:
    """The cause of missing elements: a position, a description, and the hint."""

    path: str
    line: int
    says: str
    hint: str
    kernel: str = ""


def output_findings(context: Context, right: Container[str]) -> Iterator[Finding]:
    """Yield one finding for each output with unwritten elements, except for ``right`` outputs."""
    for hole in context.record.document.holes:
        if hole.name in right:
            continue
        missing = _missing(context, hole)
        blame = _blame(context, missing)
        total = hole.bytes // hole.element
        part = "any" if hole.count == total else f"{hole.count}"
        first = missing.begin - hole.address
        yield Finding(
            rule="hazards/unwritten-output",
            message=f"no task writes {part} of the {total} elements of output '{hole.name}' (bytes {first} to "
            f"{missing.end - hole.address}): {blame.says}",
            path=blame.path,
            line=blame.line,
            hint=blame.hint,
            tasks=tuple(missing.writers[:16]),
            kernel=blame.kernel,
            related=_stores(context, missing) if blame.path == context.orchestration else (),
        )


def _missing(context: Context, hole: OutputHole) -> _Missing:
    """Return the unwritten part of an output from the recorded stores.

    If the recorded stores do not match the count of unwritten elements, kernels also store by plain C++ code. Then the
    part reaches from the first unwritten element to the output's end.
    """
    regions = context.record.regions
    low, high = hole.address, hole.address + hole.bytes
    whole = np.zeros(1, dtype=REGION)
    whole["base"], whole["length"], whole["rows"] = low, hole.bytes, 1
    segments = cut(np.concatenate((whole, regions[_writing(regions, hole)])))
    left = segments.left_over(1)
    begin, end, size = segments.span(left) if len(left) else (low, high, 0)
    if size != hole.count * hole.element:
        begin, end = low + hole.first * hole.element, high
    return _Missing(hole, begin, end, _writers(context, low, high))


def _writers(context: Context, low: int, high: int) -> list[int]:
    """Return the tasks that declare to write some of these bytes."""
    table = context.record.arguments
    rows = np.flatnonzero(table.writes & (table.begin < high) & (table.end > low))
    tasks = np.repeat(np.arange(len(table.count)), table.count)
    return [int(task) for task in np.unique(tasks[rows]).tolist()]


def _blame(context: Context, missing: _Missing) -> _Blame:
    if not missing.writers:
        return _nobody(context, missing.hole.name)
    views = {number: _view(context, number, missing) for number in missing.writers}
    wide = missing.hole.address, missing.hole.address + missing.hole.bytes
    short = [n for n, (low, high) in views.items() if low < missing.end and high > missing.begin]
    number = min(short or missing.writers, key=lambda n: _distance(views[n], missing))
    site = context.site(number)
    if site is None:
        return _Blame(context.orchestration, 0, f"{context.title(number)} writes what is next to it", _REACH)
    loop, times = _loop(context, site, missing.writers)
    if times > 1 and loop and (not short or views[number] == wide):
        late = views[number][0] >= missing.end
        says = f"the {times} tasks that this loop submits {'begin behind' if late else 'end before'} these bytes"
        hint = (
            "start the loop at the first element of the output"
            if late
            else "continue the loop to the end of the output"
        )
        return _Blame(context.orchestration, loop, says, hint)
    if short and context.task(number).block_num == 1:
        stored = _store(context, number, missing)
        if stored is not None:
            at = context.position_of(stored)
            says = f"{context.title(number)} should write these bytes, but its {at.instruction} leaves them out"
            return _Blame(
                at.path,
                at.line,
                says,
                "store the whole of the tile, or all rounds of its loop",
                context.kernels(number),
            )
    if short:
        blocks = context.task(number).block_num
        launched = f" with {blocks} blocks" if blocks > 1 else ""
        says = f"{context.title(number)} should write these bytes, but does not{launched}"
        return _Blame(
            context.orchestration, site.line, says, "launch as many blocks as the output needs" if launched else _REACH
        )
    return _beside(context, number, site, missing)


_REACH = "submit a task that writes them, or let this one reach that far"


def _nobody(context: Context, name: str) -> _Blame:
    line = context.declared_at(f"ext_{name}") or context.declared_at(name)
    says = "no submitted task has this tensor as an output"
    return _Blame(context.orchestration, line, says, "submit the task that writes it, or take the output away")


def _beside(context: Context, number: int, site: Submit, missing: _Missing) -> _Blame:
    """Return the blame of a task that writes next to the missing part, at the line of its view if it has one."""
    low = missing.hole.address
    for argument, arg in zip(site.tensors, context.task(number).args, strict=False):
        begin, end = arg.span
        if arg.writes and low <= begin < low + missing.hole.bytes and argument.expression in context.source.bases:
            line = context.declared_at(argument.expression, site.line)
            says = (
                f"the view '{argument.expression}' of {context.title(number)} covers bytes {begin - low} to {end - low}"
            )
            return _Blame(context.orchestration, line or site.line, says, "correct its shape or offset, or " + _REACH)
    says = f"{context.title(number)} writes the bytes next to these, but no task is submitted for these"
    return _Blame(context.orchestration, site.line, says, _REACH)


def _view(context: Context, number: int, missing: _Missing) -> tuple[int, int]:
    """Return the first byte of the output that a task declares to write, and one past the last."""
    low, high = missing.hole.address, missing.hole.address + missing.hole.bytes
    spans = [arg.span for arg in context.task(number).args if arg.writes]
    inside = [(begin, end) for begin, end in spans if begin < high and end > low]
    return min(begin for begin, _ in inside), max(end for _, end in inside)


def _distance(view: tuple[int, int], missing: _Missing) -> int:
    low, high = view
    return max(low - missing.end, missing.begin - high, 0)


def _loop(context: Context, site: Submit, writers: list[int]) -> tuple[int, int]:
    """Return the line of the innermost loop around a submission (0 for none), and the number of its writers."""
    around = [loop.line for loop in loops(context.source.text) if loop.line <= site.line <= loop.last]
    return max(around, default=0), sum(context.site(number) == site for number in writers)


def _store(context: Context, number: int, missing: _Missing) -> int | None:
    """Return the region of a task's last write to the output, or None."""
    part = context.record.regions_of(number)
    written = np.flatnonzero(_writing(context.record.regions[part], missing.hole))
    return int(part.start + written[-1]) if len(written) else None


def _writing(regions: Array, hole: OutputHole) -> Array:
    """Return a mask of the regions that are stores and begin in the output."""
    low, high = hole.address, hole.address + hole.bytes
    return np.asarray((regions["kind"] & WRITE > 0) & (regions["base"] >= low) & (regions["base"] < high))


def _stores(context: Context, missing: _Missing) -> tuple[Related, ...]:
    """Return the positions of stores that write the rest of the output."""
    stores: dict[tuple[str, int], Related] = {}
    for number in missing.writers[:64]:
        region = _store(context, number, missing)
        if region is not None:
            at = context.position_of(region)
            stores.setdefault(
                (at.path, at.line), Related(at.path, at.line, f"{context.title(number)} writes the other elements here")
            )
    return tuple(stores.values())[:4]
