"""Names for findings: tasks by number and kernel, tensors by variable, lines of kernels and orchestration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pypto_build.artifact import Artifact
from pypto_build.artifact.cpp.orchestration import Added, OrchestrationFile, Submit
from pypto_build.artifact.files import read_source
from pypto_build.artifact.instruction_sites import InstructionPosition, find_positions, relative
from pypto_build.diagnose.findings import Edit
from pypto_build.diagnose.hazards.record import Argument, Record, TaskRecord
from pypto_build.diagnose.recorded.names import artifact_names, submissions
from pypto_build.facts.accesses import WRITE

# Assignment of regions to buffers, and division of a buffer's bytes at the ends of regions.
# The arguments of a region's task determine its buffer. Address and allocation identify a buffer, since the runtime
# reuses memory when its tasks have ended.

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Buffers:
    """`keys[i]` is (address, owner) of buffer i. `of_region` has the buffer of each region, -1 for none."""

    keys: list[tuple[int, int]]
    of_region: Array

    def shared_and_written(self, record: Record) -> Iterator[tuple[int, Array, bool]]:
        """Yield the buffers that are written, and that more than one task accesses.

        Yields the buffer, its regions in task order, and True if all regions are the same contiguous bytes.
        """
        in_buffers = np.flatnonzero(self.of_region >= 0)
        if not len(in_buffers):
            return
        order = in_buffers[np.argsort(self.of_region[in_buffers], kind="stable")]
        numbers, regions = self.of_region[order], record.regions[order]
        starts = np.concatenate(([0], np.flatnonzero(np.diff(numbers)) + 1))
        ends = np.append(starts[1:], len(order))
        alike = regions["rows"] == 1
        for name in ("base", "length"):
            alike &= regions[name] == np.repeat(regions[name][starts], ends - starts)
        whole = np.logical_and.reduceat(alike, starts)
        written = np.logical_or.reduceat((regions["kind"] & WRITE) > 0, starts)
        shared = written & (regions["task"][starts] != regions["task"][ends - 1])
        for at in np.flatnonzero(shared).tolist():
            yield int(numbers[starts[at]]), order[starts[at] : ends[at]], bool(whole[at])


def find_buffers(record: Record) -> Buffers:
    """Find the buffer of every region: the innermost buffer of its task's arguments that contains its first byte."""
    table, bases = record.arguments, record.regions["base"]
    chosen = np.full(len(bases), -1, dtype=np.int64)  # a row of the table
    for some, rows in record.with_arguments():
        inside = (table.low[rows] <= bases[some]) & (bases[some] < table.high[rows])
        some, rows = some[inside], rows[inside]
        current = chosen[some]
        nearer = table.low[rows] > table.low[current]
        later = (table.low[rows] == table.low[current]) & (table.owner[rows] > table.owner[current])
        better = (current < 0) | nearer | later
        chosen[some[better]] = rows[better]
    held = np.flatnonzero(chosen >= 0)
    rows = chosen[held]
    pairs = np.stack((table.low[rows], table.owner[rows]), axis=1)
    keys, first, numbers = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    by_use = np.argsort(first)  # buffers are numbered in the order of first use
    of_region = np.full(len(bases), -1, dtype=np.int64)
    of_region[held] = np.argsort(by_use)[numbers.reshape(-1)]
    return Buffers([(int(low), int(owner)) for low, owner in keys[by_use].tolist()], of_region)


@dataclass(frozen=True)
class Segments:
    """A buffer's bytes in pieces, each covered completely or not at all by a region.

    Piece i reaches from `edges[i]` to `edges[i + 1]`. `pieces` has the pieces of each region.
    """

    edges: Array
    pieces: list[Array]

    def span(self, pieces: Array) -> tuple[int, int, int]:
        """Return the address of the first byte of some pieces, one past the last, and the number of bytes."""
        sizes = self.edges[pieces + 1] - self.edges[pieces]
        return int(self.edges[pieces.min()]), int(self.edges[pieces.max() + 1]), int(sizes.sum())

    def left_over(self, count: int) -> Array:
        """Return the pieces of the first `count` regions that no other region has."""
        return np.setdiff1d(np.concatenate(self.pieces[:count]), np.concatenate((*self.pieces[count:], self.edges[:0])))


def cut(regions: Array) -> Segments:
    """Divide a buffer into pieces at the ends of `regions`, which all lie in it."""
    first = regions[0]
    alike = (regions["base"] == first["base"]) & (regions["length"] == first["length"]) & (regions["rows"] == 1)
    if alike.all():  # by far the most frequent case
        begin = int(first["base"])
        return Segments(np.array([begin, begin + int(first["length"])]), [np.zeros(1, np.int64)] * len(regions))
    rows = regions["rows"].astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(rows)[:-1]))
    step = np.arange(int(rows.sum())) - np.repeat(offsets, rows)
    starts = np.repeat(regions["base"], rows).astype(np.int64) + step * np.repeat(regions["stride"], rows).astype(
        np.int64
    )
    ends = starts + np.repeat(regions["length"], rows).astype(np.int64)
    edges = np.unique(np.concatenate((starts, ends)))
    low, high = np.searchsorted(edges, starts), np.searchsorted(edges, ends)
    pieces = []
    for begin, count in zip(offsets.tolist(), rows.tolist(), strict=True):
        a, b = low[begin : begin + count], high[begin : begin + count]
        lengths = b - a
        if (lengths == 1).all():
            pieces.append(a)
        else:
            shift = np.concatenate(([0], np.cumsum(lengths)[:-1]))
            pieces.append(np.repeat(a - shift, lengths) + np.arange(int(lengths.sum())))
    return Segments(edges, pieces)


_MEMBERS = ("AIC", "AIV0", "AIV1")


class Context:
    """One checked run of an artifact, with the names of its tasks, kernels and tensors."""

    def __init__(self, artifact: Artifact, record: Record, buffers: Buffers) -> None:
        self.artifact = artifact
        self.record = record
        self.buffers = buffers
        self.orchestration = relative(artifact.orchestration.source, artifact.root)
        self._names = artifact_names(artifact.root)
        self._positions: dict[int, InstructionPosition] = {}
        self._spans: dict[int, list[tuple[int, int]]] = {}

    @cached_property
    def _sites(self) -> dict[int, Submit]:
        return self.record.submitted(self.artifact.orchestration.source)

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the orchestration's source."""
        return read_source(self.artifact.orchestration.source).splitlines()

    def task(self, number: int) -> TaskRecord:
        """Return the task with a number."""
        return self.record.tasks[self.record.by_number[number]]

    def site(self, number: int) -> Submit | None:
        """Return the line that submitted the task, or None if it is not certain."""
        return self._sites.get(number)

    def title(self, number: int) -> str:
        """Return the number and kernels of a task, such as `task 3 kernel_mul`."""
        return f"task {number} {self.kernels(number)}"

    def kernels(self, number: int) -> str:
        """Return the kernels of a task, such as `gemm_aic+gemm_aiv`."""
        return self._names.joined(self.task(number).kernels)

    def kernel(self, number: int, member: int) -> str:
        """Return the name of the kernel that a member of a task runs."""
        return self._names.kernel(self.task(number).kernels[member])

    def member(self, region: int) -> str:
        """Return block and core of a region: `block 3`, `block 0, AIV1`, or an empty text if there is only one."""
        row = self.record.regions[region]
        task = self.task(int(row["task"]))
        words = [f"block {row['block']}"] if task.block_num > 1 else []
        grouped = sum(kernel >= 0 for kernel in task.kernels) > 1
        return ", ".join(words + ([_MEMBERS[row["member"]]] if grouped else []))

    # -- arguments --

    def candidates(self, region: int) -> list[int]:
        """Return the arguments whose views a region touches. If it touches none, return those with its buffer."""
        number = self.record.task_of[region]
        begin, end = self.record.extent_of[region]
        touched = [i for i, (low, high) in enumerate(self.spans(number)) if low < end and high > begin]
        if touched:
            return touched
        buffer = int(self.buffers.of_region[region])
        keys = [arg.key for arg in self.task(number).args]
        return [i for i, key in enumerate(keys) if buffer >= 0 and key == self.buffers.keys[buffer]]

    def spans(self, number: int) -> list[tuple[int, int]]:
        """Return the first byte and one past the last of each argument of a task, as addresses."""
        if number not in self._spans:
            self._spans[number] = [arg.span for arg in self.task(number).args]
        return self._spans[number]

    def argument_of(self, region: int) -> int:
        """Return the argument that a region most likely belongs to.

        That is the first one whose declaration allows the access, else the first candidate.
        """
        row = self.record.regions[region]
        args = self.task(int(row["task"])).args
        candidates = self.candidates(region)
        fitting = [i for i in candidates if (args[i].writes if int(row["kind"]) & WRITE else args[i].reads)]
        return (fitting or candidates or [0])[0]

    def argument(self, number: int, index: int) -> Argument:
        """Return argument `index` of a task."""
        return self.task(number).args[index]

    def site_arg(self, number: int, index: int) -> Added | None:
        """Return the statement of the orchestration that adds the argument, or None if it is not certain."""
        site = self.site(number)
        return site.tensors[index] if site and index < len(site.tensors) else None

    def tensor(self, number: int, index: int) -> str:
        """Return the tensor's name in the orchestration (`'c'`), else in the kernel (`argument 2 'out'`)."""
        argument = self.site_arg(number, index)
        if argument and argument.expression.isidentifier():
            return f"'{argument.expression.removeprefix('ext_')}'"
        name = self._names.argument([k for k in self.task(number).kernels if k >= 0], index)
        return f"argument {index}" + (f" '{name.removesuffix('_tensor')}'" if name else "")

    def declared_at(self, variable: str, before: int = 0) -> int:
        """Return the last line, up to line `before`, that declares `variable` as a tensor; 0 for none."""
        lines = self.source.declared.get(variable, [])
        return max((line for line in lines if line <= (before or line)), default=0)

    @cached_property
    def source(self) -> OrchestrationFile:
        """The orchestration as it is written."""
        return submissions(self.artifact.orchestration.source)

    def method(self, number: int, index: int) -> str:
        """Return the declaration of an argument, such as `add_output(c)`."""
        argument = self.site_arg(number, index)
        tag = self.argument(number, index).tag
        method = {"INPUT": "input", "INOUT": "inout", "NO_DEP": "no_dep"}.get(tag, "output")
        return f"add_{method}({argument.expression})" if argument else f"add_{method}"

    def change_method(self, number: int, index: int, to: str) -> Edit | None:
        """Return the edit that changes the declaration of an argument, or None if its line is not certain."""
        argument = self.site_arg(number, index)
        if argument is None:
            return None
        line = self.lines[argument.line - 1]
        begin = line.find(f".{argument.method}(")
        if begin < 0:
            return None
        variable = line[:begin].split()[-1]
        old = line[line.rfind(variable, 0, begin) :].split(";")[0] + ";"
        values = [part.strip() for part in old[old.index("(") + 1 : old.rindex(")")].split(",")]
        new = " ".join(
            f"{variable}.{f'add_{to}' if v == argument.expression else argument.method}({v});" for v in values
        )
        return Edit(self.orchestration, argument.line, old, new)

    # -- positions --

    def position(self, site: int) -> InstructionPosition:
        """Return the instruction and line of a site of the record."""
        if site not in self._positions:
            self.resolve([site])
        return self._positions[site]

    def resolve(self, sites: Iterable[int]) -> None:
        """Look up positions together, which takes one process for each kernel."""
        unresolved = [site for site in dict.fromkeys(sites) if site not in self._positions]
        positions = find_positions([self.record.sites[site] for site in unresolved], self.artifact.root)
        for site in unresolved:
            position = positions[self.record.sites[site]]
            self._positions[site] = position if position.path else replace(position, path=self._source(site))

    def _source(self, site: int) -> str:
        func_id = self.record.sites[site].kernel
        root = self.artifact.root
        return next((relative(k.source, root) for k in self.artifact.kernels if k.func_id == func_id), "")

    def position_of(self, region: int) -> InstructionPosition:
        """Return the instruction and line of a region."""
        return self.position(int(self.record.regions["site"][region]))

    def bytes_in(self, buffer: int, begin: int, end: int) -> str:
        """Return addresses as bytes of a buffer, such as `bytes 0 to 65536`."""
        base = self.buffers.keys[buffer][0]
        return f"bytes {begin - base} to {end - base}"
