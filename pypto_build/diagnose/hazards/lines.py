"""Findings on stores of cores of one chip that affect each other.

- Two cores store into one line of 64 bytes at the same time, one of them through its data cache. The cache writes back
  the whole line, so the other core's store is lost.
- A block reads a store of another block after a barrier. The barrier orders the blocks, but makes no store visible.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pypto_build.artifact.files import read_source
from pypto_build.diagnose.findings import Edit, Finding, Related
from pypto_build.diagnose.hazards.conflicts import Order
from pypto_build.diagnose.hazards.context import Context
from pypto_build.diagnose.hazards.record import PLAIN, READ, WRITE, LateStore, Record

# Markers that make stores visible, and the edits that insert them.

#: The size of a line of a data cache.
LINE_BYTES = 64
CLEAN, FENCE = "dcci((__gm__ void *)0, cache_line_t::ENTIRE_DATA_CACHE);", "dsb(DSB_DDR);"


def after_store(plain: bool, pipe: str) -> str:
    """Return the markers behind a plain C++ store, or behind a store of a pipe."""
    return f"{CLEAN} {FENCE}" if plain else f"pipe_barrier(PIPE_{pipe}); {FENCE}"


def edits_beside(root: Path, path: str, line: int, markers: str, *, before: bool = False) -> tuple[Edit, ...]:
    """Return the edit that puts markers beside the statement of a line, or nothing if the line is no statement."""
    statement = read_source(root / path).splitlines()[line - 1].strip() if line else ""
    if not statement.endswith(";"):
        return ()
    return (Edit(path, line, statement, f"{markers} {statement}" if before else f"{statement} {markers}"),)


#: The largest number of lines of one region that are checked.
_MOST_LINES = 4096


def line_findings(context: Context, order: Order) -> Iterator[Finding]:
    """Yield one finding on a shared line for each pair of positions."""
    record = context.record
    kinds = record.regions["kind"]
    plain = np.flatnonzero((kinds & PLAIN > 0) & (kinds & WRITE > 0))
    if not len(plain):
        return
    by_line: dict[int, list[int]] = {}
    for region in plain.tolist():
        for line in _lines(record, region):
            by_line.setdefault(line, []).append(region)
    low, high = min(by_line) * LINE_BYTES, (max(by_line) + 1) * LINE_BYTES
    near = (kinds & WRITE > 0) & (record.regions["base"] < high) & (record.ends > low)
    told: set[tuple[object, object]] = set()
    for region in np.flatnonzero(near).tolist():
        for line in _lines(record, region):
            for other in by_line.get(line, ()):
                if not _together(record, order, other, region):
                    continue
                key = (context.position_of(other), context.position_of(region))
                if key not in told and key[::-1] not in told:
                    told.add(key)
                    yield _finding(context, other, region, line)


def barrier_findings(context: Context) -> Iterator[Finding]:
    """Yield one finding for each store that is read after a barrier without being visible."""
    record, regions = context.record, context.record.regions
    told: set[object] = set()
    for store in record.document.late:
        inside = record.regions_of(store.task)
        for region in range(inside.start, inside.stop):
            row = regions[region]
            same = (row["block"], row["member"]) == (store.block, store.member)
            if same or row["phase"] != store.phase or not int(row["kind"]) & READ:
                continue
            shared = store.bytes_shared(*(int(row[name]) for name in ("base", "rows", "stride", "length")))
            position = context.position(store.site)
            if shared >= 0 and position not in told:
                told.add(position)
                yield _barrier_finding(context, store, region, shared)


def _barrier_finding(context: Context, store: LateStore, region: int, shared: int) -> Finding:
    position, where = context.position(store.site), context.position_of(region)
    markers = after_store(position.instruction == "plain write", "ALL")
    index = context.argument_of(region)
    return Finding(
        rule="memory/unfenced-barrier",
        message=f"{context.title(store.task)}: block {store.block} stores {context.tensor(store.task, index)} "
        f"({position.instruction}), and {context.member(region)} reads it after the SYNCALL ({where.instruction}, from "
        f"byte {shared - context.argument(store.task, index).address} on): the barrier makes nothing visible",
        path=position.path,
        line=position.line,
        hint=f"between this and the SYNCALL: {markers}",
        tasks=(store.task,),
        kernel=context.kernel(store.task, store.member),
        related=(Related(where.path, where.line, f"{where.instruction} is here"),),
        edits=edits_beside(context.artifact.root, position.path, position.line, markers),
    )


def _lines(record: Record, region: int) -> set[int]:
    row = record.regions[region]
    found: set[int] = set()
    for number in range(int(row["rows"])):
        begin = int(row["base"]) + number * int(row["stride"])
        found.update(range(begin // LINE_BYTES, (begin + int(row["length"]) - 1) // LINE_BYTES + 1))
        if len(found) > _MOST_LINES:
            break
    return found


def _together(record: Record, order: Order, one: int, other: int) -> bool:
    """Return whether two regions belong to cores that may run at the same time."""
    a, b = record.regions[one], record.regions[other]
    if a["task"] == b["task"]:
        return bool((a["block"], a["member"]) != (b["block"], b["member"]) and a["phase"] == b["phase"])
    positions = (record.positions[int(a["task"])], record.positions[int(b["task"])])
    return not order.ordered(*positions)


def _finding(context: Context, one: int, other: int, line: int) -> Finding:
    regions = context.record.regions
    number, second = int(regions["task"][one]), int(regions["task"][other])
    position, where = context.position_of(one), context.position_of(other)
    index = context.argument_of(one)
    begin = line * LINE_BYTES - context.argument(number, index).address
    who = [f"{context.title(task)}{unit and f', {unit},'}" for task, unit in
           ((number, context.member(one)), (second, context.member(other)))]  # fmt: skip
    return Finding(
        rule="memory/shared-line",
        message=f"{who[0]} and {who[1]} store into one line of 64 bytes, {max(begin, 0)} to {begin + LINE_BYTES} of "
        f"{context.tensor(number, index)}, at the same time: the core whose data cache is written back last restores "
        "what the other has stored",
        path=position.path,
        line=position.line,
        hint="keep what cores write 64 bytes apart (16 floats), or store it by TSTORE",
        tasks=tuple(dict.fromkeys((number, second))),
        kernel=context.kernel(number, int(regions["member"][one])),
        related=(Related(where.path, where.line, f"{where.instruction} of the other"),) if where != position else (),
    )
