"""Findings on loads of global memory that no task writes, a source of NaN in the results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pypto_build.diagnose.findings import Finding, Level, Related
from pypto_build.diagnose.hazards.buffers import Array, cut
from pypto_build.diagnose.hazards.context import Context
from pypto_build.diagnose.hazards.positions import InstructionPosition
from pypto_build.diagnose.hazards.record import READ, WRITE, CheckError

#: The kind of error that the runtime reports for a load of memory that is unwritten.
KIND = "unwritten"


@dataclass(frozen=True)
class _Load:
    """A load of unwritten bytes: ``missing`` is their first address, end and number.

    ``writes`` are the regions that write other bytes of the buffer.
    """

    error: CheckError
    region: int
    buffer: int
    missing: tuple[int, int, int]
    writes: Array


def unwritten_findings(context: Context, level: Level) -> Iterator[Finding]:
    """Yield one finding for all loads of bytes that the same stores leave out.

    Bytes that are written after the load belong to another finding, an unordered access.
    """
    groups: dict[tuple[InstructionPosition, ...], list[_Load]] = {}
    for load in sorted(_loads(context), key=lambda load: load.error.task):
        written = {context.position_of(region) for region in load.writes.tolist()}
        positions = sorted(written or {context.position(load.error.site)}, key=lambda at: (at.path, at.line))
        groups.setdefault(tuple(positions), []).append(load)
    for group in groups.values():
        yield _finding(context, group, level)


def _loads(context: Context) -> Iterator[_Load]:
    regions, of_region = context.record.regions, context.buffers.of_region
    for error in context.record.errors:
        if error.kind != KIND:
            continue
        part = context.record.regions_of(error.task)
        mine = part.start + np.flatnonzero((regions["site"][part] == error.site) & (regions["kind"][part] & READ > 0))
        for buffer in np.unique(of_region[mine]).tolist():
            reads = mine[of_region[mine] == buffer]
            writes = np.flatnonzero((of_region == buffer) & (regions["kind"] & WRITE > 0))
            missing = _missing(regions, reads, writes) if buffer >= 0 else None
            if missing:
                yield _Load(error, int(reads[0]), buffer, missing, writes)
                break


def _missing(regions: Array, reads: Array, writes: Array) -> tuple[int, int, int] | None:
    """Return first address, end and number of the bytes that are read but not written, or None."""
    segments = cut(regions[np.concatenate((reads, writes))])
    left = segments.left_over(len(reads))
    return segments.span(left) if len(left) else None


def _finding(context: Context, group: list[_Load], level: Level) -> Finding:
    first = group[0]
    error, position = first.error, context.position(first.error.site)
    begin, end, size = first.missing
    stores: dict[tuple[str, int], Related] = {}
    for region in first.writes.tolist():
        at = context.position_of(region)
        title = context.title(context.record.task_of[region])
        related = Related(at.path, at.line, f"{title} writes the rest here ({at.instruction})")
        stores.setdefault((at.path, at.line), related)
    others = dict.fromkeys((load.error.task, context.position(load.error.site)) for load in group[1:])
    more = [Related(at.path, at.line, f"{context.title(task)} reads such bytes too") for task, at in others]
    variable = context.site_arg(error.task, context.argument_of(first.region))
    created = context.declared_at(variable.variable) if variable and not stores else 0
    if variable and created:
        return _never(context, group, variable.variable, created, level)
    return Finding(
        rule="hazards/unwritten",
        message=f"{context.title(error.task)}: {position.instruction} reads {size} bytes of "
        f"{context.tensor(error.task, context.argument_of(first.region))} that no task writes, within "
        f"{context.bytes_in(first.buffer, begin, end)}",
        path=position.path,
        line=position.line,
        hint="write all of it before"
        + (": the store leaves it out" if stores else "")
        + ", or load only what is written",
        level=level,
        tasks=tuple(dict.fromkeys(load.error.task for load in group)),
        kernel=context.kernel(error.task, error.member),
        related=(*stores.values(), *more[:6]),
    )


def _never(context: Context, group: list[_Load], variable: str, line: int, level: Level) -> Finding:
    """Return the finding on a tensor that is created, but written by no task."""
    readers: dict[tuple[str, int], Related] = {}
    for load in group:
        at = context.position(load.error.site)
        readers.setdefault(
            (at.path, at.line),
            Related(at.path, at.line, f"{context.title(load.error.task)} reads it ({at.instruction})"),
        )
    return Finding(
        rule="hazards/unwritten",
        message=f"'{variable}' is created and no task writes it; {context.title(group[0].error.task)} reads it",
        path=context.orchestration,
        line=line,
        hint="submit the task that writes it, before those that read it",
        level=level,
        tasks=tuple(dict.fromkeys(load.error.task for load in group)),
        kernel=context.kernel(group[0].error.task, group[0].error.member),
        related=tuple(readers.values())[:6],
    )
