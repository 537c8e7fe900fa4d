"""From an element of global memory back to what it was made of, as a tree of links."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pypto_build.diagnose.diverge.compare import Limits
from pypto_build.diagnose.hazards.positions import find_positions
from pypto_build.diagnose.hazards.record import AccessSite
from pypto_build.diagnose.why.differ import differ
from pypto_build.diagnose.why.flow import contributions, handed_over, last_store, last_write
from pypto_build.diagnose.why.links import Link, Summary
from pypto_build.diagnose.why.runs import Runs, TaskInfo, Traced
from pypto_build.diagnose.why.trace import SPACES, Array, Tile
from pypto_build.replay.reference.slots import TensorArgument
from pypto_build.replay.values import STORAGE

#: Links of one answer, tasks that are looked into, and elements that are followed of an operand that is combined.
_MOST_LINKS, _MOST_TASKS, _FOLLOWED = 120, 12, 2
_SHOWN = 3


class Chain:
    """Walks back from elements of global memory, addresses as in the first run."""

    def __init__(self, runs: Runs, tasks: Sequence[TaskInfo], external: set[tuple[int, int]], limits: Limits) -> None:
        """`external` are the bytes of the program's own tensors, as addresses."""
        self.runs, self.tasks, self.external, self.limits = runs, tasks, external, limits
        self.links = 0
        self.looked: set[int] = set()
        self._sites: dict[int, AccessSite] = {}  # by identity of the link
        self._known: dict[tuple[int, int, int, int, str], Link] = {}

    # --- global memory ---

    def memory(self, address: int, before: int, where: str, dtype: str, value: float | None) -> Link:
        """The byte at `address`, as tasks before number `before` left it."""
        for info in reversed(self.tasks[:before]):
            for index in sorted(info.writes):
                slot = info.tensors[index]
                if not slot.buffer <= address < slot.buffer + slot.size:
                    continue
                if info.number not in self.looked and len(self.looked) >= _MOST_TASKS:
                    return Link(where, value, note=f"more than {_MOST_TASKS} tasks back", task=info.number, cut=True)
                self.looked.add(info.number)
                found = self._stored(info, index, address - slot.buffer, where)
                if found is not None:
                    return found
        own = any(low <= address < high for low, high in self.external)
        return Link(where, value, note="input of the program" if own else "no task writes it")

    def _stored(self, info: TaskInfo, index: int, offset: int, where: str) -> Link | None:
        traced = self.runs.storing(info, index, offset)
        if not traced:
            return None
        address = self.runs.addresses[info.number][index].buffer + offset
        for one in reversed(traced):
            store = last_store(one.instructions, len(one.instructions), address)
            if store is not None:
                return self._store(one, info, *store, where=where)
        return None

    def _store(self, one: Traced, info: TaskInfo, number: int, row: int, col: int, where: str) -> Link:
        instruction = one.instructions[number]
        tile = next(iter(instruction.read), None)
        value = _at(tile.values, row, col) if tile is not None else None
        link = self._link(one, number, where, value, row, col, _dtype(tile))
        if tile is not None and self._room():
            link.of.append(self._element(one, info, number, tile, row, col))
        return self._settled(link)

    # --- on the core ---

    def _element(self, one: Traced, info: TaskInfo, before: int, tile: Tile, row: int, col: int) -> Link:
        """An element that an instruction read: who wrote it last."""
        address = int(tile.addresses[row, col])
        (found,) = last_write(one.instructions, before, tile.space, np.array([address]))
        where = _on_chip(tile, row, col)
        if found is None:
            return Link(where, _at(tile.values, row, col), task=one.task, block=one.block, kernel=one.kernel,
                        note="nothing in this kernel has written it")  # fmt: skip
        number, written, row, col = found
        key = (one.task, one.block, one.member, number, f"{written.operand.place}:{row}:{col}")
        if key in self._known:
            known = self._known[key]
            again = Link(known.where, known.value, known.expected, known.instruction, known.task, known.block,
                         known.kernel, known.cpp, known.pto, "as above", known.differs)  # fmt: skip
            self._sites[id(again)] = self._sites[id(known)]
            return again
        link = self._link(
            one, number, _on_chip(written, row, col), _at(written.values, row, col), row, col, written.operand.dtype
        )
        self._known[key] = link
        instruction = one.instructions[number]
        for view in instruction.views:
            if not view.writes and self._room():
                self._loaded(link, one, info, number, int(view.addresses[row, col]), _at(written.values, row, col))
        if instruction.name == "TPOP":
            self._popped(link, one, info, number, written, row, col)
        for operand, rows, cols in contributions(instruction, written, row, col):
            self._operand(link, one, info, number, operand, rows, cols)
        return self._settled(link)

    def _popped(self, link: Link, one: Traced, info: TaskInfo, number: int, popped: Tile, row: int, col: int) -> None:
        """What came through a pipe: the other core of the group pushed it."""
        turn = sum(before.name == "TPOP" for before in one.instructions[:number])
        for other in self.runs.group(info, one.block):
            if (other.member == 0) == (one.member == 0) or not self._room():
                continue
            members = (other.member, one.member)
            found = handed_over(other.instructions, popped, turn, members, row, col)
            if found is not None:
                push, tile, row, col = found
                value = _at(tile.values, row, col)
                pushed = self._link(other, push, "slot of the pipe", value, row, col, tile.operand.dtype)
                pushed.of.append(self._element(other, info, push, tile, row, col))
                link.of.append(self._settled(pushed))
                return
        link.note = link.note or "no push of the group holds it"

    def _operand(
        self, link: Link, one: Traced, info: TaskInfo, number: int, tile: Tile, rows: Array, cols: Array
    ) -> None:
        if len(rows) == 1:
            if self._room():
                link.of.append(self._element(one, info, number, tile, int(rows[0]), int(cols[0])))
            return
        values = tile.values[rows, cols].astype(np.float64)
        wrong = self._wrong(one, number, tile, rows, cols)
        order = np.argsort(-np.nan_to_num(np.abs(values), nan=np.inf), kind="stable")
        largest = [((int(rows[i]), int(cols[i])), float(values[i])) for i in order[:_SHOWN].tolist()]
        differ = int(np.count_nonzero(wrong))
        link.combined.append(Summary(len(values), float(values.min()), float(values.max()), differ, largest))
        follow = np.flatnonzero(wrong)[:_FOLLOWED] if differ else order[:1]
        for index in follow.tolist():
            if self._room():
                link.of.append(self._element(one, info, number, tile, int(rows[index]), int(cols[index])))

    def _wrong(self, one: Traced, before: int, tile: Tile, rows: Array, cols: Array) -> Array:
        """Which of these elements the reference had otherwise when they were written."""
        wrong = np.zeros(len(rows), dtype=bool)
        sources = last_write(one.instructions, before, tile.space, tile.addresses[rows, cols])
        for index, source in enumerate(sources):
            if source is not None:
                number, written, row, col = source
                expected = one.expected.values.get(number)
                if expected is not None and row < expected.shape[0] and col < expected.shape[1]:
                    actual = _at(written.values, row, col)
                    wrong[index] = self._differs(actual, float(expected[row, col]), written.operand.dtype, expected)
        return wrong

    def _loaded(self, link: Link, one: Traced, info: TaskInfo, number: int, address: int, value: float | None) -> None:
        """What a load took from global memory: this kernel's own store before it, another task's, or an input."""
        own = last_store(one.instructions, number, address)
        place = self._place(info, address)
        if place is None:
            link.of.append(Link("global memory", value, note="outside of the task's tensors"))
            return
        index, offset = place
        slot = info.tensors[index]
        where = _named(info.names.get(index, f"argument {index} of task {info.number}"), slot, offset)
        if own is not None:
            link.of.append(self._store(one, info, *own, where=where))
            return
        link.of.append(self.memory(slot.buffer + offset, info.number, where, slot.dtype, value))

    def _place(self, info: TaskInfo, address: int) -> tuple[int, int] | None:
        slots = self.runs.addresses[info.number]
        inside = [(i, address - s.buffer) for i, s in slots.items() if s.buffer <= address < s.buffer + s.size]
        return inside[0] if inside else None

    # --- links ---

    def _room(self) -> bool:
        return self.links < _MOST_LINKS

    def _link(self, one: Traced, number: int, where: str, value: float | None, row: int, col: int, dtype: str) -> Link:
        self.links += 1
        line = one.expected.lines.get(number, 0)
        expected = one.expected.values.get(number)
        wanted = None
        if expected is not None and row < expected.shape[0] and col < expected.shape[1]:
            wanted = float(expected[row, col])
        instruction = one.instructions[number]
        link = Link(where, value, wanted, instruction.name, one.task, one.block, one.kernel,
                    pto=f"{one.module}:{line}" if line else "")  # fmt: skip
        link.differs = wanted is not None and expected is not None and self._differs(value, wanted, dtype, expected)
        if number in one.expected.instead:
            link.instead = one.expected.instead[number]
            link.note = f"the module has {link.instead}"
        self._sites[id(link)] = instruction.site
        return link

    def _differs(self, actual: float | None, expected: float, dtype: str, all_: Array) -> bool:
        """Beyond what is allowed, or what rounding explains in a tile with values as large as these."""
        if actual is None:
            return False
        return bool(differ(np.array(actual), np.array(expected), dtype, self.limits, all_))

    def _settled(self, link: Link) -> Link:
        """Whether it parts from the reference. Where it is not known what came in, only another instruction tells."""
        below = [one for part in link.of for one in _walk(part)]
        if any(one.cut for one in below):
            link.parts = link.differs and bool(link.instead) and not any(one.parts for one in below)
        else:
            link.parts = link.differs and not any(one.differs for one in below)
        return link

    def locate(self, root: Path, top: Link) -> None:
        """Fill in the lines of the kernels."""
        links = list(_walk(top))
        sites = [self._sites[id(link)] for link in links if id(link) in self._sites]
        positions = find_positions(sites, root)
        for link in links:
            site = self._sites.get(id(link))
            at = positions[site] if site is not None else None
            if at is not None and at.path:
                link.cpp, link.instruction = f"{at.path}:{at.line}", at.instruction


def _on_chip(tile: Tile, row: int, col: int) -> str:
    operand = tile.operand
    return f"{SPACES[tile.space]} 0x{operand.place:x} [{operand.row + row}, {operand.col + col}]"


def _named(name: str, slot: TensorArgument, offset: int) -> str:
    """`'g' [127, 0]`; by its byte where it is outside of what the task was given of the buffer."""
    item = np.dtype(STORAGE[slot.dtype]).itemsize
    left, index = offset // item - slot.offset, []
    for extent, stride in zip(slot.shape, slot.strides, strict=True):
        index.append(left // stride if stride else 0)
        left -= index[-1] * stride
        if not 0 <= index[-1] < extent:
            return f"'{name}' byte {offset} of its buffer"
    return f"'{name}' [{', '.join(map(str, index))}]"


def _walk(link: Link) -> list[Link]:
    found, todo = [], [link]
    while todo:
        one = todo.pop()
        found.append(one)
        todo += one.of
    return found


def _at(values: Array, row: int, col: int) -> float | None:
    if row >= values.shape[0] or col >= values.shape[1]:
        return None
    value: Any = values[row, col]
    return float(value)


def _dtype(tile: Tile | None) -> str:
    return tile.operand.dtype if tile is not None else ""
