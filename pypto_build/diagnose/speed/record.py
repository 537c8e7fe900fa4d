"""Reader of a run's instructions: `instructions.json` (the distinct ones, and tasks), `instructions.bin` (calls).

A run has calls: a kernel on one core of a block of a task. Each call executes a stream, a sequence of numbers of rows.
A row is an instruction with its operands, a flag, a barrier or a slot of a pipe. Equal rows and streams are kept once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import read_payload, read_record
from pypto_build.facts.accesses import PIPES as NAMES
from pypto_build.facts.accesses import READ, SPACES, WRITE

Array = np.ndarray[Any, Any]

#: Kinds of rows.
SET_FLAG, WAIT_FLAG, BARRIER, SIGNAL, NOTIFY, FENCE = range(6)
INSTRUCTION, SLOT_ACQUIRED, SLOT_PASSED, MET = range(100, 104)

#: Numbers of pipes, and the name of each.
S, V, M, MTE1, MTE2, MTE3, ALL, FIX = 0, 1, 2, 3, 4, 5, 6, 10
PIPES = {number: NAMES[number] for number in (S, V, M, MTE1, MTE2, MTE3, ALL, FIX)}

#: Memories of a core, by the number that the runtime gives them.
UB, L1, L0A, L0B, L0C, BIAS, FBUF = range(7)

_AGAIN = "run `scons speed` again"
_LARGEST = 1 << 34
#: Bytes that one instruction may access in global memory, and pipes that a flag may name.
_MOST_BYTES, _PIPE_NUMBERS = 1 << 40, 16
_LAST_MEMBER = 2
_UNEVEN = "a call has more or fewer addresses than its instructions access"
_Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 48)]
_Extent = Annotated[int, msgspec.Meta(ge=-(1 << 48), le=1 << 48)]


class TileArea(msgspec.Struct, frozen=True, array_like=True):
    """A rectangle of a tile that an instruction reads or writes.

    `address` is that of the tile in its memory, `element` the bytes of an element. `row`, `col`, `height` and `width`
    are the rectangle, in elements.
    """

    address: _Extent
    space: Annotated[int, msgspec.Meta(ge=0, lt=len(SPACES))]
    access: int
    fractals: int
    type: int
    inner_rows: int
    row_major: int
    element: Annotated[int, msgspec.Meta(ge=1, le=16)]
    rows: _Size
    cols: _Size
    valid_row: _Size
    valid_col: _Size
    row: _Extent
    col: _Extent
    height: _Size
    width: _Size

    @property
    def reads(self) -> bool:
        """Return whether the instruction reads it."""
        return bool(self.access & READ)

    @property
    def writes(self) -> bool:
        """Return whether the instruction writes it."""
        return bool(self.access & WRITE)

    @property
    def bytes(self) -> int:
        """Return the bytes of the rectangle."""
        return self.height * self.width * self.element

    @property
    def start(self) -> int:
        """Return the address of the first element of a tile without fractals."""
        step = (self.row * self.cols + self.col) if self.row_major else (self.col * self.rows + self.row)
        return self.address + (0 if self.fractals else step * self.element)


class View(msgspec.Struct, frozen=True, array_like=True):
    """The part of a view of global memory that an instruction accesses: up to `rows` x `cols` elements of a tile."""

    access: int
    layout: int
    element: Annotated[int, msgspec.Meta(ge=1, le=16)]
    shape: tuple[_Extent, _Extent, _Extent, _Extent, _Extent]
    stride: tuple[_Extent, _Extent, _Extent, _Extent, _Extent]
    rows: _Size
    cols: _Size

    @property
    def bursts(self) -> tuple[int, int, int]:
        """Return the bursts of the transfer: their number, the bytes of each, and the bytes from one to the next.

        A burst is a stretch of consecutive bytes. Rows without gaps between them are one burst.
        """
        _, _, _, rows, cols = self.shape
        matrices = self.shape[0] * self.shape[1] * self.shape[2]
        if self.layout == 1:  # DN: columns are consecutive
            rows, cols, step = cols, rows, self.stride[4]
            limit_rows, limit_cols = self.cols, self.rows
        else:
            step = self.stride[3]
            limit_rows, limit_cols = self.rows, self.cols
        if self.layout == 2:  # NZ: a grid of fractals
            rows, cols = min(rows, max(limit_rows, 0)), cols
        elif matrices == 1:
            rows, cols = min(rows, limit_rows), min(cols, limit_cols)
        else:
            cols = min(cols, limit_cols)
            matrices = min(matrices, -(-limit_rows // max(rows, 1)))
        length = cols * self.element
        if rows <= 1 or step == cols:
            return max(matrices, 0), max(rows, 0) * length, rows * length
        return max(matrices * rows, 0), length, step * self.element

    @property
    def writes(self) -> bool:
        """Return whether the instruction writes global memory."""
        return bool(self.access & WRITE)


class EventRow(msgspec.Struct, frozen=True):
    """One distinct event. `file` and `offset` are its position in the code of the kernel's library.

    Of a flag, `pipe` sets it and `to` waits for it. Of a slot, `name` is producer or consumer, `id` names the ring and
    `to` is the number of its slots.
    """

    kind: int
    name: str = ""
    pipe: Annotated[int, msgspec.Meta(ge=0, lt=16)] = 0
    to: Annotated[int, msgspec.Meta(ge=0)] = 0
    id: int = 0
    file: str = ""
    offset: int = 0
    tiles: tuple[TileArea, ...] = ()
    views: tuple[View, ...] = ()


@dataclass(frozen=True)
class BlockCall:
    """One kernel on one core: member 0 of a block is its cube core, 1 and 2 are vector cores.

    `bases` are the addresses of the views of the stream's rows, in order.
    """

    task: int
    block: int
    member: int
    kernel: int
    stream: int
    bases: slice


@dataclass(frozen=True)
class Recording:
    """The instructions of a run; `calls` are sorted by task, block and member.

    `after` names the tasks that each task waits for, without those that another of these waits for already. `ids` has
    the number of each id.
    """

    rows: Sequence[EventRow]
    streams: Sequence[Array]
    calls: Sequence[BlockCall]
    bases: Array = field(default_factory=lambda: np.zeros(0, np.uint64))
    after: Mapping[int, frozenset[int]] = field(default_factory=dict)
    ids: Mapping[int, int] = field(default_factory=dict)
    complete: bool = True

    @cached_property
    def tasks(self) -> dict[int, list[BlockCall]]:
        """Return the calls of each task, in the order of submission."""
        tasks: dict[int, list[BlockCall]] = {}
        for call in self.calls:
            tasks.setdefault(call.task, []).append(call)
        return tasks

    def accesses_as(self, other: Recording) -> bool:
        """Return whether its calls access global memory as those of a recording that was made from it."""
        if self.streams is other.streams and self.calls is other.calls and self.bases is other.bases:
            return self._views == other._views
        same = len(self.streams) == len(other.streams) and np.array_equal(self.bases, other.bases)
        return same and self.calls == other.calls and self._accesses == other._accesses

    @cached_property
    def _views(self) -> list[tuple[View, ...]]:
        return [row.views for row in self.rows]

    @cached_property
    def _accesses(self) -> list[list[tuple[View, ...]]]:
        """Return of each stream the views of its rows that have some."""
        viewed = np.array([bool(views) for views in self._views], bool)
        return [[self._views[n] for n in stream[viewed[stream]].tolist()] for stream in self.streams]


class _Document(msgspec.Struct, frozen=True):
    schema: int
    complete: bool
    calls: _Size
    bases: _Size
    rows: list[EventRow]
    streams: list[_Size]
    tasks: list[Annotated[list[Annotated[int, msgspec.Meta(ge=0)]], msgspec.Meta(min_length=1)]] = []


_CALL = np.dtype([(name, np.uint32) for name in ("task", "block", "member", "kernel", "stream", "bases")])


def read_recording(directory: Path) -> Recording:
    """Read the record of a run in `directory`. Raises a usage error if there is none, or it cannot be read."""
    path, binary = directory / "instructions.json", directory / "instructions.bin"
    document = read_record(path, _Document, "is not a record of instructions", _AGAIN, largest=_LARGEST)
    data = read_payload(binary, _AGAIN, _LARGEST)
    head = 8 * document.bases + _CALL.itemsize * document.calls
    if len(data) != head + 4 * sum(document.streams):
        raise ArtifactError(binary, "is not a record of instructions: it has another size", _AGAIN)
    bases = np.frombuffer(data, np.uint64, document.bases)
    calls = np.frombuffer(data, _CALL, document.calls, 8 * document.bases)
    events = np.frombuffer(data, np.uint32, offset=head)
    ends = np.cumsum(document.streams, dtype=np.int64)
    streams = np.split(events, ends[:-1]) if document.streams else []
    last = np.cumsum(calls["bases"], dtype=np.int64)
    if (
        (len(events) and int(events.max()) >= len(document.rows))
        or (len(calls) and int(calls["stream"].max()) >= len(streams))
        or (len(calls) and int(last[-1]) != document.bases)
    ):
        raise ArtifactError(binary, "is not a record of instructions: a number is out of range", _AGAIN)
    viewed = np.array([bool(row.views) for row in document.rows], bool)
    views = np.array([int(viewed[stream].sum()) for stream in streams], np.int64)
    wrong = _fault(document, calls) or ("" if (views[calls["stream"]] == calls["bases"]).all() else _UNEVEN)
    if wrong:
        raise ArtifactError(path, f"is not a record of instructions: {wrong}", _AGAIN)
    listed = [
        BlockCall(row[0], row[1], row[2], row[3], row[4], slice(end - row[5], end))
        for row, end in zip(calls.tolist(), last.tolist(), strict=True)
    ]
    listed.sort(key=lambda call: (call.task, call.block, call.member))  # they end in any order
    after = dependencies(document.tasks, {call.task for call in listed})
    ids = {task[0]: number for number, task in enumerate(document.tasks)}
    return Recording(document.rows, streams, listed, bases, after, ids, document.complete)


def _fault(document: _Document, calls: Array) -> str:
    """Return an inconsistency that later steps could not handle, or an empty text."""
    for number, row in enumerate(document.rows):
        if row.kind in (SET_FLAG, WAIT_FLAG) and row.to >= _PIPE_NUMBERS:
            return f"rows[{number}] is a flag of a pipe that is not there"
        for view in row.views:
            count, length, step = view.bursts
            if not 0 <= count * length <= _MOST_BYTES or abs(count * step) > _MOST_BYTES:
                return f"rows[{number}] accesses more memory than there is"
        if any(tile.bytes > _MOST_BYTES for tile in row.tiles):
            return f"rows[{number}] accesses more of a tile than there is"
    for number, (_, *waits) in enumerate(document.tasks):
        if waits and max(waits) >= number:
            return f"tasks[{number}] waits for a task that comes later"
    if len(calls) and int(calls["member"].max()) > _LAST_MEMBER:
        return "a call of a member that no task has"
    return ""


def dependencies(tasks: Sequence[Sequence[int]], executed: Set[int]) -> dict[int, frozenset[int]]:
    """Return the tasks that each executed task waits for, by number. Others stand for those that they wait for."""
    through: list[frozenset[int]] = []
    for _, *waits in tasks:  # in the order of submission: producers come first
        parts = [frozenset((one,)) if one in executed else through[one] for one in waits]
        through.append(parts[0] if len(parts) == 1 else frozenset().union(*parts))
    return {number: through[number] for number in executed if number < len(through)}
