"""`scons dump` on a distributed artifact: the dumps of all ranks, and whether ranks agree; `RANK=` for one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pypto_build.artifact.errors import ArtifactError
from pypto_build.diagnose.console import table
from pypto_build.diagnose.dump.viewer import HEADINGS, Viewer, open_viewer, remarks, show
from pypto_build.diagnose.recorded.args_dump import DumpedArg
from pypto_build.diagnose.recorded.ranks import RanksRun
from pypto_build.replay.chips.records import HOST, DispatchRow

#: So many tensors are described, and compared with each other, where there is one of each dispatch.
_DESCRIBED = 16


@dataclass(frozen=True)
class RankDump:
    """The dump of one dispatch, and what is selected of it."""

    row: DispatchRow
    viewer: Viewer
    records: list[DumpedArg]

    @property
    def place(self) -> str:
        """`0/d1`, as `RANK=` takes it."""
        return f"{self.row.rank}/d{self.row.index}"


def dump_of_ranks(options: argparse.Namespace) -> int:
    """View the dumps; 0, or 1 where --against finds a difference."""
    run = RanksRun(options.root, options.build_dir or options.root)
    rows = run.choose(options.rank) if options.rank else [row for row in run.dispatches if row.rank != HOST]
    if len(rows) == 1:
        return show(open_viewer(run.program_of(rows[0]), run.directory_of(rows[0])), options)
    for name, value in (("TASK", options.task), ("AGAINST", options.against)):
        if value:
            listed = ", ".join(f"RANK={row.rank}/d{row.index}" for row in rows[:_DESCRIBED])
            raise ArtifactError(f"{name}={value}", "looks at one dispatch", f"name it: {listed}")
    dumps = _selected(run, rows, options)
    if options.export:
        return max(show(dump.viewer, options) for dump in dumps)
    cells = [[dump.place, *row] for dump in dumps for row in dump.viewer.rows(dump.records)]
    print("\n".join(table(cells, ("rank", *HEADINGS))))
    for line in dict.fromkeys(line for dump in dumps for line in remarks(dump.viewer)):
        print(line)
    if options.values or (len(dumps) <= _DESCRIBED and all(len(dump.records) == 1 for dump in dumps)):
        for dump in dumps:
            for record in dump.records:
                print(f"\nrank {dump.place} " + "\n".join(dump.viewer.describe(record)))
        print("".join(f"\n{line}" for line in agreement(dumps)), end="\n" if len(dumps) > 1 else "")
    return 0


def _selected(run: RanksRun, rows: Sequence[DispatchRow], options: argparse.Namespace) -> list[RankDump]:
    """The dumps of `rows` that have what the options name. Raises the error of the last if none has."""
    dumps: list[RankDump] = []
    kernels: set[str] = set()
    error: ArtifactError | None = None
    for row in rows:
        try:
            viewer = open_viewer(run.program_of(row), run.directory_of(row))
            kernels |= {viewer.names.joined(record.func_ids) for record in viewer.dump.records}
            records = viewer.select(options)
        except ArtifactError as found:
            error = found
            continue
        if records:
            dumps.append(RankDump(row, viewer, records))
    if not dumps and options.kernel and options.kernel not in kernels:
        raise ArtifactError(
            f"KERNEL={options.kernel}", "no dumped task runs it", f"dumped: {', '.join(sorted(kernels)) or 'nothing'}"
        )
    if not dumps:
        raise error or ArtifactError("ROLE, STAGE", "no dumped argument has them", "leave one of them out")
    return dumps


def agreement(dumps: Sequence[RankDump]) -> list[str]:
    """Compare the first tensor of all dispatches: ranks with the same bits, and the distance of the others."""
    first = {dump.place: dump.records[0] for dump in dumps}
    if len(dumps) < 2 or any(record.kind != "tensor" or not record.size for record in first.values()):
        return []
    if len({(record.dtype, record.shape) for record in first.values()}) > 1:
        return []
    stored = {dump.place: dump.viewer.dump.stored(dump.records[0]) for dump in dumps}
    groups: dict[bytes, list[str]] = {}
    for dispatch, content in stored.items():
        groups.setdefault(content.tobytes(), []).append(dispatch)
    ordered = sorted(groups.values(), key=len, reverse=True)
    if len(ordered) == 1:
        return [f"all {len(dumps)} have the same bits"]
    lines = [f"the same bits: {', '.join(ordered[0])}"] if len(ordered[0]) > 1 else ["no two have the same bits"]
    base = stored[ordered[0][0]].reshape(-1)
    for group in ordered[1:]:
        other = stored[group[0]].reshape(-1)
        places = np.flatnonzero(other != base)
        if len(places) == 0:  # signs of zero, payloads of NaN
            continue
        lines.append(
            f"{', '.join(group)}: {len(places)} of {base.size} elements differ from {ordered[0][0]}, "
            f"the first at {places[0]}"
        )
    return lines
