"""Reader of a checked run's record: `accesses.json` (tasks, sites, errors) and `accesses.bin` (regions)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from pypto_build.artifact import ArtifactError, files
from pypto_build.artifact.cpp.orchestration import Submit
from pypto_build.artifact.instruction_sites import AccessSite, Executed
from pypto_build.diagnose.recorded.graph import Task, TaskArg, TaskGraph
from pypto_build.diagnose.recorded.names import match_tasks, submissions
from pypto_build.facts.layouts import AccessRecord

_AGAIN = "replay the checked build again"
_LARGEST = 1 << 34
#: The largest number of rows of a region. Tiles have fewer.
_MOST_ROWS = 1 << 20
#: The largest address.
_END = 1 << 62
_Size = Annotated[int, msgspec.Meta(ge=0, le=_END)]
_Number = Annotated[int, msgspec.Meta(ge=-1, le=(1 << 31) - 1)]

#: The layout of one region, as the runtime writes it.
REGION = np.dtype(AccessRecord)


_READ = frozenset(("INPUT", "INOUT", "NO_DEP"))
_WRITTEN = frozenset(("OUTPUT", "OUTPUT_EXISTING", "INOUT", "NO_DEP"))


class Argument(msgspec.Struct, frozen=True, array_like=True):
    """One tensor argument of a task: a buffer, and a view of it in elements of `item` bytes.

    `reach` is the number of bytes from the view's first byte to its last.
    """

    tag: str
    address: _Size
    bytes: _Size
    owner: Annotated[int, msgspec.Meta(ge=0)]
    offset: Annotated[int, msgspec.Meta(ge=0, le=1 << 56)]
    dtype: str
    item: Annotated[int, msgspec.Meta(ge=0, le=16)]
    manual: bool
    reach: _Size

    @property
    def reads(self) -> bool:
        """True if it is declared to be read by the kernel."""
        return self.tag in _READ

    @property
    def writes(self) -> bool:
        """True if it is declared to be written by the kernel."""
        return self.tag in _WRITTEN

    @property
    def key(self) -> tuple[int, int]:
        """The buffer's address and its allocation. Both are needed because memory is reused."""
        return self.address, self.owner

    @property
    def span(self) -> tuple[int, int]:
        """The addresses of the view's first byte and one past its last."""
        begin = self.address + self.offset * self.item
        return begin, begin + self.reach


class TaskRecord(msgspec.Struct, frozen=True):
    """One submission. `number` is -1 for an allocation. `waits` are producers with the reason of each dependency."""

    id: str
    number: _Number
    kernels: Annotated[list[_Number], msgspec.Meta(min_length=1, max_length=3)]
    block_num: _Number
    manual: bool
    host_waits: _Number
    waits: list[tuple[str, str]]
    args: list[Argument]


class HostWait(msgspec.Struct, frozen=True):
    """A wait of the orchestration itself for tasks, and with `readers` for their consumers."""

    readers: bool
    tasks: list[str]


class CheckError(msgspec.Struct, frozen=True):
    """An error of an access. `other_site` is the earlier access that it must be ordered after, or -1.

    `pipe` should have waited for `other_pipe`. `tile` is the position of a misplaced tile. `flag` is a wrong event id,
    and `other_flag` the right one; a `flag` alone is only set, or only waited for. Both are -1 if unused. `markers` are
    missing before the access, or with `at_end` where the kernel returns.
    """

    kind: str
    message: str
    site: _Number
    other_site: _Number
    task: _Number
    block: _Number
    member: _Number
    count: _Size
    pipe: str = ""
    other_pipe: str = ""
    tile: str = ""
    flag: _Number = -1
    other_flag: _Number = -1
    markers: str = ""
    at_end: bool = False


class OutputHole(msgspec.Struct, frozen=True):
    """`count` unwritten elements of an output, the first at flat index `first`. The tensor is at `address`."""

    name: str
    address: _Size
    bytes: _Size
    count: _Size
    first: _Size
    element: Annotated[int, msgspec.Meta(ge=1, le=16)]


class LateStore(msgspec.Struct, frozen=True, array_like=True):
    """A store of a unit (block, member) that may be invisible to other units in `phase`, which a barrier begins."""

    task: Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
    block: _Number
    member: Annotated[int, msgspec.Meta(ge=0, le=2)]
    phase: Annotated[int, msgspec.Meta(ge=0, le=1 << 16)]
    site: Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]
    base: _Size
    rows: Annotated[int, msgspec.Meta(ge=1, le=_MOST_ROWS)]
    stride: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
    length: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]

    def bytes_shared(self, base: int, rows: int, stride: int, length: int) -> int:
        """Return the address of the first byte that a region shares with the store, or -1."""
        for row in range(self.rows):
            begin = self.base + row * self.stride
            first = max(0, (begin - base) // stride) if stride else 0
            for other in range(first, rows):
                at = base + other * stride
                if at >= begin + self.length:
                    break
                if at + length > begin:
                    return max(at, begin)
        return -1


class _Document(msgspec.Struct, frozen=True):
    schema: int
    complete: bool
    tasks: list[TaskRecord]
    host_waits: list[HostWait]
    sites: list[AccessSite]
    errors: list[CheckError]
    signalling: list[int]
    holes: list[OutputHole] = []
    late: list[LateStore] = []
    executed: list[Executed] = []


@dataclass(frozen=True)
class ArgumentTable:
    """The arguments of all tasks in columns. Task `n` has `count[n]` arguments from row `first[n]` on.

    `begin` and `end` are the addresses of the view, `low` and `high` those of the buffer. `owner` is its allocation.
    """

    first: np.ndarray[Any, Any]
    count: np.ndarray[Any, Any]
    begin: np.ndarray[Any, Any]
    end: np.ndarray[Any, Any]
    low: np.ndarray[Any, Any]
    high: np.ndarray[Any, Any]
    owner: np.ndarray[Any, Any]
    reads: np.ndarray[Any, Any]
    writes: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Record:
    """One checked run. Regions are sorted by the number of their task."""

    document: _Document
    regions: np.ndarray[Any, Any]

    @property
    def tasks(self) -> list[TaskRecord]:
        """All submissions in order, including allocations."""
        return self.document.tasks

    @property
    def sites(self) -> list[AccessSite]:
        """The sites by number."""
        return self.document.sites

    @property
    def errors(self) -> list[CheckError]:
        """The errors of single accesses."""
        return self.document.errors

    @cached_property
    def signalling(self) -> frozenset[int]:
        """The numbers of tasks that synchronize with others through memory."""
        return frozenset(self.document.signalling)

    @cached_property
    def by_number(self) -> dict[int, int]:
        """The position in `tasks`, by task number."""
        return {task.number: index for index, task in enumerate(self.tasks) if task.number >= 0}

    @cached_property
    def positions(self) -> list[int]:
        """The positions in `tasks` as a list, indexed by task number."""
        return [self.by_number[number] for number in range(len(self.by_number))]

    @cached_property
    def task_of(self) -> list[int]:
        """The task number of each region."""
        return [int(number) for number in self.regions["task"].tolist()]

    @cached_property
    def kind_of(self) -> list[int]:
        """The kind of each region, a combination of READ, WRITE, ATOMIC and PLAIN."""
        return [int(kind) for kind in self.regions["kind"].tolist()]

    @cached_property
    def extent_of(self) -> list[tuple[int, int]]:
        """The addresses of each region's first byte and one past its last."""
        return list(zip(self.regions["base"].tolist(), self.ends.tolist(), strict=True))

    @cached_property
    def first_region(self) -> list[int]:
        """The index of each task's first region, by task number, and the number of regions at the end."""
        numbers = np.arange(len(self.by_number) + 1)
        return [int(first) for first in np.searchsorted(self.regions["task"], numbers).tolist()]

    @cached_property
    def arguments(self) -> ArgumentTable:
        """The arguments of all tasks, in the order of task numbers."""
        tasks = [self.tasks[position].args for position in self.positions]
        args = [arg for of_task in tasks for arg in of_task]
        count = np.array([len(of_task) for of_task in tasks], dtype=np.int64)
        numbers = [(arg.address, arg.bytes, arg.owner, arg.offset * arg.item, arg.reach) for arg in args]
        low, size, owner, offset, reach = np.array(numbers, dtype=np.uint64).reshape(-1, 5).T
        begin = low + offset
        reads = np.array([arg.tag in _READ for arg in args], dtype=bool)
        writes = np.array([arg.tag in _WRITTEN for arg in args], dtype=bool)
        return ArgumentTable(
            np.cumsum(count) - count, count, begin, begin + reach, low, low + size, owner, reads, writes
        )

    def with_arguments(self) -> Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
        """Pair all regions with the arguments of their tasks, one argument index at a time.

        Yields the numbers of regions whose task has that argument, and the row in `arguments` for each.
        """
        table, tasks = self.arguments, self.regions["task"]
        for index in range(int(table.count.max(initial=0))):
            regions = np.flatnonzero(table.count[tasks] > index)
            yield regions, table.first[tasks[regions]] + index

    @cached_property
    def ends(self) -> np.ndarray[Any, Any]:
        """The address one past the last byte of each region."""
        rows = (self.regions["rows"] - 1).astype(np.uint64)
        end: np.ndarray[Any, Any] = self.regions["base"] + rows * self.regions["stride"] + self.regions["length"]
        return end

    def regions_of(self, number: int) -> slice:
        """Return the slice of a task's regions."""
        return slice(self.first_region[number], self.first_region[number + 1])

    def submitted(self, orchestration: Path) -> dict[int, Submit]:
        """Return the lines that submitted the tasks, by task number, as far as they are certain."""
        tasks = [
            Task(
                task.number,
                tuple(dict.fromkeys(kernel for kernel in task.kernels if kernel >= 0)),
                args=tuple(TaskArg(i, arg.tag, None, arg.dtype, ()) for i, arg in enumerate(task.args)),
            )
            for task in self.tasks
            if task.number >= 0
        ]
        return match_tasks(TaskGraph(orchestration, tuple(tasks), ()), submissions(orchestration).submits)


def read_record(directory: Path) -> Record:
    """Read the record of a run in `directory`. Raises a usage error if there is none, or it cannot be read."""
    path = directory / "accesses.json"
    binary = directory / "accesses.bin"
    wrong, first = "is not a record of accesses", "replay the checked build first"
    document = files.read_record(path, _Document, wrong, _AGAIN, unread=first, largest=_LARGEST)
    data = files.read_payload(binary, first, _LARGEST)
    regions = np.frombuffer(data[: len(data) - len(data) % REGION.itemsize], dtype=REGION)
    for file, fault in ((path, document_fault(document)), (binary, region_fault(document, regions))):
        if fault:
            raise ArtifactError(file, f"{wrong}: {fault}", _AGAIN)
    if (regions["block"] > 0).any():  # blocks are recorded in a random order
        return Record(document, regions[np.lexsort((regions["member"], regions["block"], regions["task"]))])
    return Record(document, regions[np.argsort(regions["task"], kind="stable")])


def document_fault(document: _Document) -> str:
    """Return an inconsistency of a document that later steps could not handle, or an empty text."""
    numbers = sorted(task.number for task in document.tasks if task.number >= 0)
    if numbers != list(range(len(numbers))):
        return "the tasks' numbers have gaps"
    if any(arg.owner >= 1 << 64 for task in document.tasks for arg in task.args):
        return "an argument that was allocated by no task there can be"
    lanes = {task.number: len(task.kernels) for task in document.tasks}
    for position, error in enumerate(document.errors):
        fits = 0 <= error.task < len(numbers) and 0 <= error.member < lanes[error.task]
        if not fits or not 0 <= error.site < len(document.sites) or not -1 <= error.other_site < len(document.sites):
            return f"errors[{position}] is about a task or a place that is not there"
    for position, one in enumerate(document.executed):
        if one.site >= len(document.sites) or len(one.numbers) % 8:
            return f"executed[{position}] is at a place that is not there, or of a part of a tile"
    for position, store in enumerate(document.late):
        if not (store.task < len(numbers) and store.member < lanes[store.task] and store.site < len(document.sites)):
            return f"late[{position}] is of a task or a place that is not there"
    return ""


def region_fault(document: _Document, regions: np.ndarray[Any, Any]) -> str:
    """Return an inconsistency of the regions of a document, or an empty text."""
    lanes = np.array(
        [len(task.kernels) for task in sorted(document.tasks, key=attrgetter("number")) if task.number >= 0]
    )
    if len(regions) == 0:
        return ""
    if int(regions["task"].max()) >= len(lanes):
        return "a region of a task that is not there"
    if int(regions["site"].max()) >= len(document.sites):
        return "a region at a place that is not there"
    if (regions["member"] >= lanes[regions["task"]]).any():
        return "a region of a member that its task does not have"
    if not ((regions["rows"] >= 1) & (regions["rows"] <= _MOST_ROWS)).all():
        return f"a region of more rows than {_MOST_ROWS}, or none"
    reach = regions["rows"].astype(np.float64) * regions["stride"] + regions["base"] + regions["length"]
    return "a region beyond all memory" if (reach > _END).any() else ""
