"""Views of the arguments that a run dumped, by one chip or all ranks: listings, values, comparisons, files."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.pt import read_pt, write_pt
from pypto_build.diagnose.console import one_of, table
from pypto_build.diagnose.recorded.args_dump import ROLES, STAGES, ArgsDump, DumpedArg, find_manifest, read_dump
from pypto_build.diagnose.recorded.evidence import no_record
from pypto_build.diagnose.recorded.graph import TaskOrder, find_graph, read_graph
from pypto_build.diagnose.recorded.names import Names, find_names
from pypto_build.diagnose.recorded.ranks import RanksRun
from pypto_build.replay.chips.records import HOST, DispatchRow
from pypto_build.replay.compare import coordinates, difference
from pypto_build.replay.values import Array, decode, storage

# Statistics of an array of numbers: range, moments, special values, and a histogram.

_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Statistics:
    """Statistics of an array: range and moments of its finite elements, and counts over all elements.

    Range and moments are NaN if there is no finite element. `distinct` is None if there are many distinct values.
    """

    numel: int
    minimum: float
    maximum: float
    mean: float
    deviation: float
    zeros: int
    nans: int
    infinities: int
    distinct: int | None

    @property
    def text(self) -> str:
        """The statistics in one line."""
        if self.numel == 0:
            return "no elements"
        parts = [
            f"min {self.minimum:.6g}",
            f"max {self.maximum:.6g}",
            f"mean {self.mean:.6g}",
            f"std {self.deviation:.4g}",
        ]
        parts += [f"{count} {word}" for count, word in ((self.nans, "NaN"), (self.infinities, "inf")) if count]
        parts += [f"{self.zeros / self.numel:.0%} zero"] if self.zeros else []
        parts += ["all the same" if self.distinct == 1 else f"{self.distinct} distinct"] if self.distinct else []
        return ", ".join(parts)


#: The largest number of distinct values that is reported.
_FEW = 16


def statistics(values: Array) -> Statistics:
    """Return the statistics of an array of any shape and type."""
    flat, numbers = np.asarray(values).reshape(-1), _statistics_numbers(values)
    finite = np.isfinite(numbers)
    good = numbers[finite]
    distinct = len(np.unique(good[:4096]))
    if distinct <= _FEW:
        distinct = len(np.unique(good))
    return Statistics(
        numel=flat.size,
        minimum=float(good.min()) if good.size else float("nan"),
        maximum=float(good.max()) if good.size else float("nan"),
        mean=float(good.mean()) if good.size else float("nan"),
        deviation=float(good.std()) if good.size else float("nan"),
        zeros=int(np.count_nonzero(numbers == 0)),
        nans=int(np.count_nonzero(np.isnan(numbers))),
        infinities=int(np.count_nonzero(np.isinf(numbers))),
        distinct=distinct if 0 < distinct <= _FEW else None,
    )


def _statistics_numbers(values: Array) -> Array:
    with np.errstate(invalid="ignore"):  # unwritten bytes are marked by signalling NaN
        return np.asarray(values).reshape(-1).astype(np.float64, copy=False)


@dataclass(frozen=True)
class Histogram:
    """Counts of finite elements in equally wide bins from `low` to `high`."""

    low: float
    high: float
    counts: tuple[int, ...]

    @property
    def line(self) -> str:
        """The bins as a row of block characters. The largest bin has a full block, and no used bin is blank."""
        top = max(self.counts, default=0)
        blocks = (0 if not count else max(1, round(count / top * (len(_BARS) - 1))) for count in self.counts)
        return f"{self.low:.4g} |{''.join(_BARS[block] for block in blocks)}| {self.high:.4g}"


def histogram(values: Array, bins: int = 40) -> Histogram | None:
    """Return the histogram of an array, or None if it has no finite element."""
    numbers = _statistics_numbers(values)
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return None
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        return Histogram(low, high, (finite.size,))
    counts, _ = np.histogram(finite, bins=bins, range=(low, high))
    return Histogram(low, high, tuple(int(count) for count in counts))


EXPORTS = ("pt", "npy", "txt")

#: Tensors with up to this number of elements are printed completely.
_SHOWN_ELEMENTS = 64
_SHOWN_MISMATCHES = 10


#: The columns of a listing.
HEADINGS = ("task", "kernel", "arg", "name", "role", "stage", "dtype", "shape", "content")


class Viewer:
    """A dump with the names of its tasks, kernels and arguments."""

    def __init__(self, dump: ArgsDump, names: Names, order: TaskOrder) -> None:
        self.dump, self.names, self.order = dump, names, order

    def arg_name(self, record: DumpedArg) -> str:
        """Return the argument's name in the kernel's wrapper, or its index."""
        return self.names.argument(record.func_ids, record.index) or str(record.index)

    def select(self, options: argparse.Namespace) -> list[DumpedArg]:
        """Return the records that the options select, in the order of submission.

        Raises a usage error for a task, kernel or argument that is not in the dump.
        """
        records = sorted(self.dump.records, key=self._position)
        if options.task:
            ids = {self.order.find(text) for text in options.task.split(",")}
            records = [record for record in records if record.task_id in ids]
        if options.kernel:
            records = self._of_kernel(records, options.kernel)
        if options.arg:
            records = self._of_arg(records, options.arg)
        for key, value, table_ in (("role", options.role, ROLES), ("stage", options.stage, STAGES)):
            if value:
                records = [record for record in records if getattr(record, key) == table_[value]]
        return records

    def _position(self, record: DumpedArg) -> tuple[int, int, int, str]:
        number = self.order.numbers.get(record.task_id, len(self.order.numbers))
        return number, record.task_id, record.index, {"before": "0", "after": "1"}[record.stage]

    def _of_kernel(self, records: list[DumpedArg], kernel: str) -> list[DumpedArg]:
        matches = [
            r for r in records if kernel in {self.names.kernel(i) for i in r.func_ids} | set(map(str, r.func_ids))
        ]
        if not matches:
            names = sorted({self.names.joined(record.func_ids) for record in self.dump.records})
            raise ArtifactError(
                f"KERNEL={kernel}", "no dumped task runs this kernel", f"dumped kernels: {', '.join(names)}"
            )
        return matches

    def _of_arg(self, records: list[DumpedArg], arg: str) -> list[DumpedArg]:
        matches = [record for record in records if arg in (str(record.index), self.arg_name(record))]
        if not matches:
            names = dict.fromkeys(self.arg_name(record) for record in records)
            raise ArtifactError(
                f"ARG={arg}", "no dumped argument has this name", f"dumped arguments: {', '.join(names)}"
            )
        return matches

    # -- text ---------------------------------------------------------------------------------------------------

    def rows(self, records: Sequence[DumpedArg]) -> list[list[str]]:
        """Return the cells under `HEADINGS` for each record. Scalars are shown with their value."""
        return [
            [
                self.order.label(record.task_id),
                self.names.joined(record.func_ids),
                str(record.index),
                self.names.argument(record.func_ids, record.index) or "-",
                record.role,
                record.stage,
                record.dtype,
                "x".join(map(str, record.shape)) or "scalar",
                self._content(record),
            ]
            for record in records
        ]

    def _content(self, record: DumpedArg) -> str:
        if record.kind == "scalar":
            return f"= {self._scalar(record)}"
        if record.overwritten:
            return "overwritten"
        if self.dump.binary is None or not record.size:
            return "not dumped"
        return f"{record.size:,} bytes" + (" (truncated)" if record.truncated else "")

    def _scalar(self, record: DumpedArg) -> str:
        """Return a scalar in the type of the kernel's argument. The dump has its 64 bits only."""
        if record.dtype != "uint64" or type(record.value) is not int:
            return str(record.value)
        taken = self.names.scalar(record.func_ids, record.index, record.value)
        if taken is None:
            return str(record.value)
        name, value = taken
        return f"{value:.9g} ({name})" if isinstance(value, float) else f"{value} ({name})"

    def describe(self, record: DumpedArg) -> list[str]:
        """Return the lines about a record: heading, statistics, histogram, and all values if they are few."""
        lines = [self.title(record)]
        if record.kind == "scalar":
            return [*lines, f"  value {self._scalar(record)}"]
        values = self.dump.values(record)
        lines.append(f"  {statistics(values).text}")
        bins = histogram(values)
        if bins is not None and len(bins.counts) > 1:
            lines.append(f"  {bins.line}")
        if values.size <= _SHOWN_ELEMENTS:
            lines += [f"  {line}" for line in np.array2string(values, max_line_width=100).splitlines()]
        else:
            flat = values.reshape(-1)
            lines.append(f"  first {_numbers(flat[:6])} … last {_numbers(flat[-6:])}")
        return lines

    def title(self, record: DumpedArg) -> str:
        """Return the heading of a record: `task 3 (1:4) kernel_mul arg 2 'out' output after float32[128, 128]`."""
        name = self.names.argument(record.func_ids, record.index)
        words = [f"task {self.order.label(record.task_id)}", self.names.joined(record.func_ids), f"arg {record.index}"]
        words += [f"'{name}'"] if name else []
        return " ".join([*words, record.role, record.stage, f"{record.dtype}{list(record.shape)}"])


def _numbers(values: Array) -> str:
    return " ".join(f"{value:.6g}" for value in values.tolist())


def compare(viewer: Viewer, record: DumpedArg, path: Path, rtol: float, atol: float) -> tuple[bool, list[str]]:
    """Compare a dumped tensor with a torch file. Returns whether they agree, and the lines of the report."""
    tensor = read_pt(path)
    stored = viewer.dump.stored(record)
    if tensor.dtype != record.dtype or tensor.numel != stored.size:
        have = f"{tensor.dtype}{list(tensor.shape)}"
        other = f"holds {have}, but the dumped tensor is {viewer.title(record)}"
        raise ArtifactError(path, other, "select another argument with TASK= and ARG=")
    expected = storage(tensor.contiguous(), tensor.dtype, record.shape)
    differs = difference(stored, expected, record.dtype, rtol, atol)
    lines = [viewer.title(record)]
    if not differs.count:
        return True, [
            *lines,
            f"  equal to {path.name} within rtol={rtol:g} atol={atol:g}; max abs error {differs.max_abs:g}",
        ]
    lines.append(
        f"  {differs.count} of {stored.size} elements differ from {path.name}, max abs error {differs.max_abs:g}"
    )
    actual, reference = decode(stored, record.dtype).reshape(-1), decode(expected, record.dtype).reshape(-1)
    for flat in np.flatnonzero(differs.mask.reshape(-1))[:_SHOWN_MISMATCHES].tolist():
        at = coordinates(flat, record.shape)
        lines.append(f"    {at}: dumped {actual[flat]:.8g}, file {reference[flat]:.8g}")
    return False, lines


#: The hint if there is no dump. A run whose selection matches nothing writes none.
_NO_DUMP = "replay with DUMP=2 for all arguments, DUMP=1 for the marked ones; DUMP_ARGS= and DUMP_TASKS= must fit"


def export(viewer: Viewer, record: DumpedArg, form: str, directory: Path) -> Path:
    """Write one tensor as `pt` (stored elements), `npy` or `txt` (numbers), and return the file's path."""
    number = viewer.order.numbers.get(record.task_id, record.task_id)
    kernels = re.sub(r"[^\w.+-]+", "_", viewer.names.joined(record.func_ids))  # names from the dump are untrusted
    name = f"task{number}_{kernels}_{viewer.arg_name(record)}"
    path = directory / f"{name}_{record.stage}.{form}"
    directory.mkdir(parents=True, exist_ok=True)
    if form == "pt":
        write_pt(path, record.dtype, record.shape, viewer.dump.stored(record).tobytes())
    elif form == "npy":
        np.save(path, viewer.dump.values(record))
    else:
        values = viewer.dump.values(record)
        rows = (
            values.reshape(math.prod(values.shape[:-1]), -1)
            if values.size and values.ndim > 1
            else values.reshape(-1, 1)
        )
        text = [f"# {viewer.title(record)}", *(" ".join(f"{value:.9g}" for value in row) for row in rows.tolist())]
        path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path


def open_viewer(root: Path, build_dir: Path | None) -> Viewer:
    """Open the dump of an artifact's last run (in `build_dir`), or the dump in a directory."""
    directories = [path for path in (build_dir, root) if path is not None]
    manifest = next(filter(None, map(find_manifest, directories)), None)
    if manifest is None:
        raise no_record(directories[0], "contains no argument dump", _NO_DUMP)
    dump = read_dump(manifest)
    graph = find_graph(manifest.parent, *directories)
    ids = [record.task_id for record in dump.records]
    order = read_graph(graph).order if graph else TaskOrder.guessed(ids)
    near = (manifest.parent, manifest.parent.parent, manifest.parent.parent.parent)
    return Viewer(dump, find_names(root, *directories, *near), order)


def show(viewer: Viewer, options: argparse.Namespace) -> int:
    """Show, export or compare the records that the options select, and return the exit status."""
    records = viewer.select(options)
    if options.against:
        return _compare_all(viewer, records, options)
    tensors = [record for record in records if record.kind == "tensor"]
    if options.export:
        one_of("EXPORT", options.export, EXPORTS)
        directory = options.output or viewer.dump.path.parent / "export"
        for record in tensors:
            print(export(viewer, record, options.export, directory))
        return 0
    print("\n".join(table(viewer.rows(records), HEADINGS)))
    for line in remarks(viewer):
        print(line)
    if options.values or len(records) == 1:
        for record in records:
            print("\n" + "\n".join(viewer.describe(record)))
    return 0


def _compare_all(viewer: Viewer, records: Sequence[DumpedArg], options: argparse.Namespace) -> int:
    agree = True
    tensors = [record for record in records if record.kind == "tensor"]
    if not tensors:
        raise ArtifactError("AGAINST=", "selects no tensor", "select a tensor with TASK=, KERNEL= and ARG=")
    for record in tensors:
        same, lines = compare(viewer, record, options.against, options.rtol, options.atol)
        agree &= same
        print("\n".join(lines))
    return 0 if agree else 1


def remarks(viewer: Viewer) -> list[str]:
    """Return notes on a dump: dropped records, missing submission order, missing contents."""
    dump = viewer.dump
    lines = []
    if dump.dropped:
        lines.append(f"note: {dump.dropped} records were dropped while the run went on; dump fewer arguments at a time")
    if not viewer.order.exact:
        lines.append("note: tasks are numbered by their ids; DEP_GEN=1 records the order of submission")
    if dump.binary is None and dump.records:
        lines.append("note: this dump has no contents (level 3, or its binary file is gone)")
    return lines


#: So many tensors are described, and compared with each other, where there is one of each dispatch.
_DESCRIBED = 16


@dataclass(frozen=True)
class RankDump:
    """The dump of one dispatch, and the records selected from it."""

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
            raise ArtifactError(f"{name}={value}", "shows only one dispatch", f"name the dispatch: {listed}")
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
    """Return the dumps of `rows` that contain the selected records.

    Raises ArtifactError if no dump contains one.
    """
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
            f"KERNEL={options.kernel}",
            "no dumped task runs this kernel",
            f"dumped kernels: {', '.join(sorted(kernels)) or 'nothing'}",
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
