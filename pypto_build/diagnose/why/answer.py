"""The work of `why`: which element is meant, the runs, the chain."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.instruction_sites import AccessSite, find_positions
from pypto_build.diagnose.diverge.lockstep import Limits
from pypto_build.diagnose.why.differ import differ
from pypto_build.diagnose.why.forward import (
    NAMED,
    Cone,
    Forward,
    Reached,
    Walk,
    cone_of,
    contributions,
    handed_over,
    last_store,
    last_write,
)
from pypto_build.diagnose.why.kept import KeptChain, Link, Summary, keep
from pypto_build.diagnose.why.runs import Call, FirstRun, Runs, Traced, as_many, find, flat, run
from pypto_build.diagnose.why.trace import Array, Intervals, Tile
from pypto_build.facts.accesses import SPACES
from pypto_build.facts.tasks import TensorView
from pypto_build.replay.reference.hook import ReferenceHook
from pypto_build.replay.reference.launch import Launch, Progress, in_child, open_launch
from pypto_build.replay.values import STORAGE, decode

# From an element of global memory back to what it was made of, as a tree of links.

#: Links of one answer, tasks that are looked into, and elements that are followed of an operand that is combined.
_MOST_LINKS, _MOST_TASKS, _FOLLOWED = 120, 40, 2
_SHOWN = 3


class Chain:
    """Walks back from elements of global memory, addresses as in the first run."""

    def __init__(self, runs: Runs, external: set[tuple[int, int]], limits: Limits) -> None:
        """`external` are the bytes of the program's own tensors, as addresses."""
        self.runs, self.external, self.limits = runs, external, limits
        self.links = 0
        self.looked: set[int] = set()
        self._sites: dict[int, AccessSite] = {}  # by identity of the link
        self._links: dict[tuple[int, int, int, int, str], Link] = {}

    # --- global memory ---

    def memory(self, address: int, before: int, where: str, value: float | None) -> Link:
        """The byte at `address` of the first run, as tasks before number `before` left it."""
        for call in self.runs.first_run.writers(address, before):
            number = call[0]
            if number not in self.looked and len(self.looked) >= _MOST_TASKS:
                return Link(where, value, note=f"more than {_MOST_TASKS} tasks back", task=number, cut=True)
            self.looked.add(number)
            if large := self.runs.too_large(call):
                return Link(where, value, note=large, task=number, cut=True)
            link = self._stored(call, address, where)
            if link is not None:
                return link
        own = any(low <= address < high for low, high in self.external)
        return Link(where, value, note="input of the program" if own else "no task writes it")

    def _stored(self, call: Call, address: int, where: str) -> Link | None:
        args = self.runs.first_run.tasks[call[0]].args
        index = next((i for i, arg in enumerate(args) if arg.address <= address < arg.address + arg.bytes), None)
        if index is None:
            return None
        for one in reversed(self.runs.of(call)):
            there = one.slots[index].buffer + address - args[index].address
            store = last_store(one.instructions, len(one.instructions), there)
            if store is not None:
                return self._store(one, *store, where=where)
        return None

    def _store(self, one: Traced, number: int, row: int, col: int, where: str) -> Link:
        instruction = one.instructions[number]
        tile = next(iter(instruction.read), None)
        value = _at(tile.values, row, col) if tile is not None else None
        link = self._link(one, number, where, value, row, col, _dtype(tile))
        if tile is not None and self._room():
            link.of.append(self._element(one, number, tile, row, col))
        return self._settled(link)

    # --- on the core ---

    def _element(self, one: Traced, before: int, tile: Tile, row: int, col: int) -> Link:
        """An element that an instruction read: who wrote it last."""
        address = int(tile.addresses[row, col])
        (written_by,) = last_write(one.instructions, before, tile.space, np.array([address]))
        where = _on_chip(tile, row, col)
        if written_by is None:
            return Link(where, _at(tile.values, row, col), task=one.task, block=one.block, kernel=one.kernel,
                        note="nothing in this kernel has written it")  # fmt: skip
        number, written, row, col = written_by
        key = (one.task, one.block, one.member, number, f"{written.operand.address}:{row}:{col}")
        if key in self._links:
            earlier = self._links[key]
            again = replace(earlier, note="as above", parts=False, cut=False, instead="", combined=[], of=[])
            self._sites[id(again)] = self._sites[id(earlier)]
            return again
        link = self._link(
            one, number, _on_chip(written, row, col), _at(written.values, row, col), row, col, written.operand.dtype
        )
        self._links[key] = link
        instruction = one.instructions[number]
        for view in instruction.views:
            if not view.writes and self._room():
                self._loaded(link, one, number, int(view.addresses[row, col]), _at(written.values, row, col))
        if instruction.name == "TPOP":
            self._popped(link, one, number, written, row, col)
        for operand, rows, cols in contributions(instruction, written, row, col):
            self._operand(link, one, number, operand, rows, cols)
        return self._settled(link)

    def _popped(self, link: Link, one: Traced, number: int, popped: Tile, row: int, col: int) -> None:
        """Add the push that a popped element came from: the other core of the group pushed it."""
        turn = sum(before.name == "TPOP" for before in one.instructions[:number])
        for other in self.runs.of((one.task, one.block)):
            if (other.member == 0) == (one.member == 0) or not self._room():
                continue
            members = (other.member, one.member)
            handed = handed_over(other.instructions, popped, turn, members, row, col)
            if handed is not None:
                push, tile, row, col = handed
                value = _at(tile.values, row, col)
                pushed = self._link(other, push, "slot of the pipe", value, row, col, tile.operand.dtype)
                pushed.of.append(self._element(other, push, tile, row, col))
                link.of.append(self._settled(pushed))
                return
        link.note = link.note or "no push of the group holds it"

    def _operand(self, link: Link, one: Traced, number: int, tile: Tile, rows: Array, cols: Array) -> None:
        if len(rows) == 1:
            if self._room():
                link.of.append(self._element(one, number, tile, int(rows[0]), int(cols[0])))
            return
        values = tile.values[rows, cols].astype(np.float64)
        wrong = self._wrong(one, number, tile, rows, cols)
        order = np.argsort(-_weight(one.instructions[number].name, values), kind="stable")
        largest = [((int(rows[i]), int(cols[i])), float(values[i])) for i in order[:_SHOWN].tolist()]
        differ = int(np.count_nonzero(wrong))
        link.combined.append(Summary(len(values), float(values.min()), float(values.max()), differ, largest))
        follow = np.flatnonzero(wrong)[:_FOLLOWED] if differ else order[:1]
        for index in follow.tolist():
            if self._room():
                link.of.append(self._element(one, number, tile, int(rows[index]), int(cols[index])))

    def _wrong(self, one: Traced, before: int, tile: Tile, rows: Array, cols: Array) -> Array:
        """Return a mask of the elements that differed from the reference when they were written."""
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

    def _loaded(self, link: Link, one: Traced, number: int, address: int, value: float | None) -> None:
        """Add the source of a load: an earlier store of this kernel, the store of another task, or an input."""
        own = last_store(one.instructions, number, address)
        location = one.place(address)
        if location is None:
            link.of.append(Link("global memory", value, note="outside of the task's tensors"))
            return
        index, offset = location
        slot = one.slots[index]
        where = _named(one.names[index], slot, offset)
        if own is not None:
            link.of.append(self._store(one, *own, where=where))
            return
        first_run = self.runs.first_run.tasks[one.task].args[index].address + offset
        link.of.append(self.memory(first_run, one.task, where, value))

    # --- links ---

    def _room(self) -> bool:
        return self.links < _MOST_LINKS

    def _link(self, one: Traced, number: int, where: str, value: float | None, row: int, col: int, dtype: str) -> Link:
        self.links += 1
        line = one.expected.lines.get(number, 0)
        expected = one.expected.values.get(number)
        reference = None
        if expected is not None and row < expected.shape[0] and col < expected.shape[1]:
            reference = float(expected[row, col])
        instruction = one.instructions[number]
        link = Link(where, value, reference, instruction.name, one.task, one.block, one.kernel,
                    pto=f"{one.module}:{line}" if line else "")  # fmt: skip
        link.differs = (
            reference is not None and expected is not None and self._differs(value, reference, dtype, expected)
        )
        if number in one.expected.instead:
            link.instead = one.expected.instead[number]
            link.note = f"the module has {link.instead}"
        self._sites[id(link)] = instruction.site
        return link

    def _differs(self, actual: float | None, expected: float, dtype: str, all_: Array) -> bool:
        """Return True if the difference exceeds the limits, or what rounding explains in a tile with such values."""
        if actual is None:
            return False
        return bool(differ(np.array(actual), np.array(expected), dtype, self.limits, all_))

    def _settled(self, link: Link) -> Link:
        """Mark a link that differs from the reference although its operands agree, and return it.

        If an operand was cut off, only another instruction in the module counts.
        """
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


def _weight(name: str, values: Array) -> Array:
    """Return the share of each combined element in a result.

    The largest element decides a maximum, the smallest a minimum, and the largest sizes most of a sum.
    """
    sign = 1 if "MAX" in name else -1 if "MIN" in name else 0
    return np.nan_to_num(sign * values if sign else np.abs(values), nan=np.inf, posinf=np.inf, neginf=-np.inf)


def _on_chip(tile: Tile, row: int, col: int) -> str:
    operand = tile.operand
    return f"{SPACES[tile.space]} 0x{operand.address:x} [{operand.row + row}, {operand.col + col}]"


def _named(name: str, slot: TensorView, offset: int) -> str:
    """Return a name such as `'g' [127, 0]`, or the byte in the buffer if it lies outside of the task's view."""
    item = np.dtype(STORAGE[slot.dtype]).itemsize
    left, index = offset // item - slot.offset, []
    for extent, stride in zip(slot.shape, slot.strides, strict=True):
        index.append(left // stride if stride else 0)
        left -= index[-1] * stride
        if not 0 <= index[-1] < extent:
            return f"'{name}' byte {offset} of its buffer"
    return f"'{name}' [{', '.join(map(str, index))}]"


def _walk(link: Link) -> list[Link]:
    links, todo = [], [link]
    while todo:
        one = todo.pop()
        links.append(one)
        todo += one.of
    return links


def _at(values: Array, row: int, col: int) -> float | None:
    if row >= values.shape[0] or col >= values.shape[1]:
        return None
    value: Any = values[row, col]
    return float(value)


def _dtype(tile: Tile | None) -> str:
    return tile.operand.dtype if tile is not None else ""


#: Of a range, so many wrong elements besides the one that is most wrong have their chains kept.
_OTHERS = 12


def answer(options: argparse.Namespace) -> Link:
    """Return the chain of an element. For a range, the chains of its other elements are kept for the report.

    Raises ArtifactError and RunFault.
    """
    launch, checked = _launched(options)
    number = _output(launch, options.out)
    chosen = elements(options.at, launch.binding.tensors[number].shape)
    limits = Limits(options.rtol, options.atol)
    text = in_child(lambda: _in_child(launch, checked, number, chosen, limits), Progress(), options.timeout)
    chains = msgspec.json.decode(text, type=list[KeptChain])
    keep(options.build_dir, options.artifact, chains)
    return chains[0].link


def forward(options: argparse.Namespace) -> Forward:
    """Follow the chosen elements forward and return all that was made of them. Raises ArtifactError and RunFault."""
    launch, checked = _launched(options)
    names = [tensor.name for tensor in launch.binding.tensors]
    if options.from_ not in names:
        raise ArtifactError(
            "", f"FROM={options.from_} is not a tensor of the program", f"the tensors are {', '.join(names)}"
        )
    number = names.index(options.from_)
    chosen = elements(options.at, launch.binding.tensors[number].shape)
    text = in_child(lambda: _forward_in_child(launch, checked, number, chosen), Progress(), options.timeout)
    return msgspec.json.decode(text, type=Forward)


def _forward_in_child(launch: Launch, checked: Path, number: int, chosen: tuple[slice, ...]) -> str:
    import torch

    torch.set_num_threads(1)
    tensor = launch.binding.tensors[number]
    source = _intervals(_span(launch, number)[0], tensor, chosen)
    first_run = find(launch, checked)
    values = {i: _values(launch, i) for i, one in enumerate(launch.binding.tensors) if one.direction != "IN"}
    walk = Walk(first_run, source, lambda plan: Runs(launch, checked, first_run, plan))
    walk.follow()
    outputs = []
    for index, there in values.items():
        carries = _carried(walk, launch, index).reshape(there.shape)
        if index != number and carries.any():
            reached = there[carries].astype(np.float64)
            first = np.argwhere(carries)[:NAMED].tolist()
            name, low, high = launch.binding.tensors[index].name, float(reached.min()), float(reached.max())
            outputs.append(Reached(name, int(carries.sum()), there.size, low, high, first))
    count = int(np.prod([part.stop - part.start for part in chosen]))
    answer = Forward(
        f"'{tensor.name}' [{range_text(chosen)}]", count, walk.located(launch.artifact), outputs, walk.note
    )
    return msgspec.json.encode(answer).decode()


def _carried(walk: Walk, launch: Launch, index: int) -> Any:
    """Return a mask of the elements of a tensor that carry tainted bytes."""
    tensor, (low, _) = launch.binding.tensors[index], _span(launch, index)
    item = np.dtype(STORAGE[tensor.dtype]).itemsize
    carries = np.zeros(int(np.prod(tensor.shape)), bool)
    within = walk.tainted.within(low, low + len(carries) * item)
    for first, end in zip(within.low.tolist(), within.high.tolist(), strict=True):
        carries[(first - low) // item : -((low - end) // item)] = True
    return carries


def range_text(chosen: tuple[slice, ...]) -> str:
    """Parts of each dimension as they are typed."""
    return ", ".join(str(part.start) if part.stop == part.start + 1 else f"{part.start}:{part.stop}" for part in chosen)


def _launched(options: argparse.Namespace) -> tuple[Launch, Path]:
    """Return the built artifact and the directory of its checked binaries."""
    built = (options.artifact, options.build_dir, options.embedded, options.platform)
    launch = open_launch(*built, options.data, options.seed, options.usual, options.numerics)
    return launch, options.binaries or options.build_dir / "check"


def _output(launch: Launch, name: str) -> int:
    """The number of a tensor of the program."""
    tensors = launch.binding.tensors
    outputs = [i for i, tensor in enumerate(tensors) if tensor.direction != "IN"]
    if not name and len(outputs) == 1:
        return outputs[0]
    number = next((i for i, tensor in enumerate(tensors) if tensor.name == name), None)
    if number is None or number not in outputs:
        names = ", ".join(tensors[i].name for i in outputs) or "none"
        raise ArtifactError("", f"OUT={name} is not an output of the program", f"the outputs are {names}")
    return number


def elements(text: str, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """`127,0` and `0:4,7`: parts of each dimension, within the shape."""
    parts = [part.strip() for part in text.split(",")] if text else []
    if len(parts) != len(shape):
        example = ",".join("0" for _ in shape)
        raise ArtifactError(
            "", f"AT={text} does not fit the shape {list(shape)}", f"give an index such as AT={example}"
        )
    ranges = []
    for part, extent in zip(parts, shape, strict=True):
        low, colon, high = part.partition(":")
        try:
            first = int(low) if low or not colon else 0
            last = (int(high) if high else extent) if colon else first + 1
        except ValueError:
            raise ArtifactError(
                "", f"AT={text}: '{part}' is neither an index nor a range", "write an index I or a range I:J"
            ) from None
        if not 0 <= first < last <= extent:
            raise ArtifactError("", f"AT={text}: {part} is not within 0 to {extent - 1}", f"the shape is {list(shape)}")
        ranges.append(slice(first, last))
    return tuple(ranges)


def _in_child(launch: Launch, checked: Path, number: int, chosen: tuple[slice, ...], limits: Limits) -> str:
    import torch

    torch.set_num_threads(1)
    tensor = launch.binding.tensors[number]
    base, _ = _span(launch, number)
    first_run = find(launch, checked)
    actual = _values(launch, number)
    cone = cone_of(first_run, _intervals(base, tensor, chosen), len(first_run.tasks))
    indices = [tuple(part.start for part in chosen)]
    if actual[chosen].size > 1:
        indices = _most_wrong(actual, _expected(launch, number, first_run, cone), chosen, tensor.dtype, limits)
    external = {_span(launch, i) for i, one in enumerate(launch.binding.tensors) if one.nbytes}
    runs = _runs(launch, checked, first_run, cone)
    runs.intact = lambda: _values(launch, number)[chosen].tobytes() == actual[chosen].tobytes()
    item = np.dtype(STORAGE[tensor.dtype]).itemsize
    chains = []
    for index in indices:
        chain = Chain(runs, external, limits)
        where = f"'{tensor.name}' [{', '.join(map(str, index))}]"
        flat = int(np.ravel_multi_index(index, tensor.shape))
        top = chain.memory(base + flat * item, len(first_run.tasks), where, float(actual[index]))
        if runs.varies and not top.note:
            top.note = f"it varies: the first run left {float(actual[index]):.7g}"
        chain.locate(launch.artifact, top)
        chains.append(KeptChain(tensor.name, list(index), top))
    return msgspec.json.encode(chains).decode()


def _runs(launch: Launch, checked: Path, first_run: FirstRun, cone: Cone) -> Runs:
    """The second runs, for a cone."""

    def plan(call: Call) -> tuple[list[Call], list[Call] | None]:
        chosen = as_many(first_run, [call, *(one for one in cone.calls if one[0] < call[0])])
        return chosen, cone_of(first_run, Intervals(), call[0] + 1, chosen).calls if first_run.by_itself else None

    runs = Runs(launch, checked, first_run, plan)
    runs.poison = not first_run.by_itself or len(cone.left.without(_input_bytes(launch))) > 0
    runs.last = cone.calls[0] if cone.calls else (-1, -1)
    return runs


def _input_bytes(launch: Launch) -> Intervals:
    """The bytes that hold something before the run."""
    tensors = enumerate(launch.binding.tensors)
    spans = [_span(launch, i) for i, one in tensors if one.nbytes and one.direction != "OUT"]
    low, high = np.array(sorted(spans), np.int64).reshape(-1, 2).T
    return Intervals.of(low, high)


def _intervals(base: int, tensor: Any, chosen: tuple[slice, ...]) -> Intervals:
    """The bytes of a part of a tensor of the program, which lies at `base`."""
    item = np.dtype(STORAGE[tensor.dtype]).itemsize
    *outer, last = chosen or (slice(0, 1),)
    shape = tensor.shape or (1,)
    strides = np.cumprod((1, *shape[:0:-1]))[::-1] * item
    first = np.array([last.start * item], np.int64)
    for part, stride in zip(outer, strides[:-1].tolist(), strict=True):
        first = (np.arange(part.start, part.stop, dtype=np.int64)[:, None] * stride + first.reshape(1, -1)).reshape(-1)
    low = base + first
    return Intervals.of(low, low + (last.stop - last.start) * item)


def _most_wrong(
    actual: Any, expected: Any, chosen: tuple[slice, ...], dtype: str, limits: Limits
) -> list[tuple[int, ...]]:
    """The element of a range that is most wrong, then some of the others that are wrong, from all over the range."""
    mine, theirs = actual[chosen], expected[chosen]
    first = int(np.argmax(_distance(mine, theirs)))
    wrong = np.flatnonzero(differ(mine, theirs, dtype, limits, expected))
    others = wrong[np.linspace(0, len(wrong) - 1, min(_OTHERS, len(wrong))).astype(np.int64)] if len(wrong) else wrong
    flat = dict.fromkeys([first, *others.tolist()])
    starts = [part.start for part in chosen]
    return [tuple(int(a + b) for a, b in zip(starts, np.unravel_index(one, mine.shape), strict=True)) for one in flat]


def _span(launch: Launch, number: int) -> tuple[int, int]:
    """Return the address range of a tensor of the program: first byte and one past the last."""
    data = np.frombuffer(launch.arena.tensor(number), dtype=np.uint8)
    return int(data.ctypes.data), int(data.ctypes.data) + len(data)


def _values(launch: Launch, number: int) -> Any:
    tensor = launch.binding.tensors[number]
    stored = np.frombuffer(bytes(launch.arena.tensor(number)), dtype=STORAGE[tensor.dtype])
    return decode(stored, tensor.dtype).reshape(tensor.shape)


def _expected(launch: Launch, number: int, first_run: FirstRun, cone: Cone) -> Any:
    only = flat(cone.calls) if first_run.by_itself else []
    run(launch, ReferenceHook(launch.artifact, launch.numerics), {"only": only}, {})
    return _values(launch, number)


@np.errstate(all="ignore")
def _distance(actual: Any, expected: Any) -> Any:
    """Return the absolute difference of each element; infinite if only one of the two is a number."""
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    return np.where(same, 0.0, np.nan_to_num(np.abs(a - e), nan=np.inf))
