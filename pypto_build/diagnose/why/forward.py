"""From elements of a tensor on to all that was made of them: which instructions had them in their operands, how many
elements carried them, and which elements of the outputs they reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from pypto_build.diagnose.hazards.positions import find_positions
from pypto_build.diagnose.hazards.record import AccessSite
from pypto_build.diagnose.why.flow import reached
from pypto_build.diagnose.why.runs import Runs, TaskInfo, Traced
from pypto_build.diagnose.why.trace import SPACES, Array, Instruction, Tile
from pypto_build.replay.reference.slots import TensorArgument

#: Tasks that are looked into, and indices that are named of the elements an output has.
_MOST_TASKS, NAMED = 64, 5


class Carried(msgspec.Struct):
    """An instruction that had the elements in its operands: how many of its result carry them, the extremes of these,
    and the first one by row and column. ``times`` is how often it was executed with them."""

    task: int
    block: int
    kernel: str
    instruction: str
    where: str
    count: int
    min: float
    max: float
    first: tuple[int, int]
    cpp: str = ""
    pto: str = ""
    times: int = 1


class Reached(msgspec.Struct):
    """An output of the program that they reach: how many elements, the extremes, and the first few by index."""

    output: str
    count: int
    of: int
    min: float
    max: float
    first: list[list[int]]


class Forward(msgspec.Struct):
    """The answer: from which elements, through which instructions in order, to which outputs."""

    source: str
    count: int
    steps: list[Carried]
    outputs: list[Reached]
    note: str = ""


@dataclass
class Tainted:
    """Bytes of global memory that carry the elements, as a mask of each buffer by its address in the first run."""

    masks: dict[int, Array] = field(default_factory=dict)

    def of(self, slot: TensorArgument) -> Array:
        """The mask of a buffer."""
        found = self.masks.get(slot.buffer)
        if found is None or len(found) < slot.size:
            grown = np.zeros(slot.size, bool)
            grown[: 0 if found is None else len(found)] = False if found is None else found
            self.masks[slot.buffer] = grown
        return self.masks[slot.buffer]


class Walk:
    """Follows bytes through the tasks in the order of submission."""

    def __init__(self, runs: Runs, tasks: Sequence[TaskInfo]) -> None:
        self.runs, self.tasks = runs, tasks
        self.tainted = Tainted()
        self.steps: dict[tuple[int, int, int, str, str], Carried] = {}
        self.sites: dict[tuple[int, int, int, str, str], AccessSite] = {}
        self.note = ""

    def follow(self) -> None:
        """Go through all tasks that read what carries."""
        looked = 0
        for info in self.tasks:
            if not any(self.tainted.of(slot).any() for slot in info.tensors.values()):
                continue
            if looked == _MOST_TASKS:
                self.note = (
                    f"more than {_MOST_TASKS} tasks have it: those after task {info.number} were not looked into"
                )
                return
            looked += 1
            for one in self.runs.task(info):
                self._call(one, info)

    def _call(self, one: Traced, info: TaskInfo) -> None:
        memories: dict[int, Array] = {}
        slots = self.runs.addresses[info.number]
        for instruction in one.instructions:
            masks = self._results(instruction, memories, slots, info)
            for tile, mask in masks:
                memory = _memory(memories, tile.space, tile.span[1])
                index = tile.addresses[..., None] + np.arange(tile.operand.element)
                memory[index] = mask[..., None]
                if mask.any():
                    values = tile.values[mask].astype(np.float64)
                    where = f"{SPACES[tile.space]} 0x{tile.operand.place:x}"
                    self._note(one, instruction, where, mask, values)
            self._store(one, instruction, memories, slots, info)

    def _results(
        self, instruction: Instruction, memories: dict[int, Array], slots: Mapping[int, TensorArgument], info: TaskInfo
    ) -> list[tuple[Tile, Array]]:
        """The tiles that an instruction writes, with which of their elements carry now."""
        sources = [(tile, _memory(memories, tile.space, tile.span[1])[tile.addresses]) for tile in instruction.read]
        loads = [view for view in instruction.views if not view.writes and view.addresses.size]
        found = []
        for result in instruction.written:
            mask = np.zeros(result.addresses.shape, bool)
            for tile, carries in sources:
                if carries.any():
                    mask |= reached(instruction.name, tile, carries, result)
            for view in loads:
                high, wide = (min(a, b) for a, b in zip(view.addresses.shape, mask.shape, strict=True))
                mask[:high, :wide] |= self._loaded(view.addresses[:high, :wide], slots, info)
            found.append((result, mask))
        return found

    def _loaded(self, addresses: Array, slots: Mapping[int, TensorArgument], info: TaskInfo) -> Array:
        mask = np.zeros(addresses.shape, bool)
        for index, slot in slots.items():
            inside = (addresses >= slot.buffer) & (addresses < slot.buffer + slot.size)
            if inside.any():
                mask[inside] |= self.tainted.of(info.tensors[index])[addresses[inside] - slot.buffer]
        return mask

    def _store(
        self, one: Traced, instruction: Instruction, memories: dict[int, Array], slots: Mapping[int, TensorArgument],
        info: TaskInfo,
    ) -> None:  # fmt: skip
        tile = next(iter(instruction.read), None)
        for view in instruction.views:
            if not view.writes or tile is None or not view.addresses.size:
                continue
            carries = _memory(memories, tile.space, tile.span[1])[tile.addresses]
            high, wide = (min(a, b) for a, b in zip(view.addresses.shape, carries.shape, strict=True))
            mask, addresses = carries[:high, :wide], view.addresses[:high, :wide]
            for index, slot in slots.items():
                inside = (addresses >= slot.buffer) & (addresses < slot.buffer + slot.size)
                bytes_ = (addresses[inside] - slot.buffer)[:, None] + np.arange(view.element)
                self.tainted.of(info.tensors[index])[bytes_] = mask[inside][:, None]
            if mask.any():
                where = next(
                    (f"'{info.names.get(i, f'argument {i}')}'" for i, s in slots.items()
                     if s.buffer <= int(addresses[mask][0]) < s.buffer + s.size), "global memory",
                )  # fmt: skip
                self._note(one, instruction, where, mask, tile.values[:high, :wide][mask].astype(np.float64))

    def _note(self, one: Traced, instruction: Instruction, where: str, mask: Array, values: Array) -> None:
        key = one.task, one.block, one.member, instruction.site.offset, where
        row, col = (int(i) for i in np.argwhere(mask)[0])
        low, high, count = float(values.min()), float(values.max()), int(np.count_nonzero(mask))
        known = self.steps.get(key)
        if known is not None:
            known.times, known.count = known.times + 1, known.count + count
            known.min, known.max = min(known.min, low), max(known.max, high)
            return
        line = one.expected.lines.get(instruction.number, 0)
        pto = f"{one.module}:{line}" if line else ""
        self.steps[key] = Carried(
            one.task, one.block, one.kernel, instruction.name, where, count, low, high, (row, col), pto=pto
        )
        self.sites[key] = instruction.site

    def located(self, root: Path) -> list[Carried]:
        """The steps, with the lines of the kernels."""
        positions = find_positions(self.sites.values(), root)
        for key, step in self.steps.items():
            at = positions[self.sites[key]]
            if at.path:
                step.cpp, step.instruction = f"{at.path}:{at.line}", at.instruction
        return list(self.steps.values())


def _memory(memories: dict[int, Array], space: int, size: int) -> Array:
    """The mask of a memory of the core, at least so large."""
    found = memories.get(space)
    if found is None or len(found) < size:
        grown = np.zeros(max(size, 1 << 16), bool)
        if found is not None:
            grown[: len(found)] = found
        memories[space] = grown
    return memories[space]


def forward_lines(answer: Forward) -> list[str]:
    """For people."""
    lines = [f"{answer.source}: {answer.count} element{'s' if answer.count > 1 else ''}"]
    for step in answer.steps:
        block = f" block {step.block}" if step.block else ""
        times = f", {step.times} times" if step.times > 1 else ""
        values = _range(step.min, step.max)
        places = "  ".join(filter(None, (step.cpp, step.pto)))
        first = f"the first [{step.first[0]}, {step.first[1]}]"
        lines.append(f"  task {step.task} {step.kernel}{block}  {step.instruction}  {places}")
        lines.append(f"      {step.where}: {step.count} carry it{times}, {values}, {first}")
    for output in answer.outputs:
        first = ", ".join(str(index) for index in output.first)
        values = _range(output.min, output.max)
        lines.append(f"reaches '{output.output}': {output.count} of {output.of} elements, {values}: {first}")
    if not answer.outputs:
        lines.append("reaches no output")
    return [*lines, *([answer.note] if answer.note else [])]


def _range(low: float, high: float) -> str:
    return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
