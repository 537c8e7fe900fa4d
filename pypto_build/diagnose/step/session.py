"""Position in a recorded kernel call, and queries there. All front ends of `step` use it."""

from __future__ import annotations

import mmap
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import map_file
from pypto_build.artifact.instruction_sites import InstructionPosition, find_positions
from pypto_build.artifact.interface import relative_source
from pypto_build.diagnose.diverge.lockstep import Limits
from pypto_build.diagnose.recorded.graph import text_or_nothing
from pypto_build.diagnose.step.record import MEMBERS, KernelCall, TaskRecording, TaskTensor
from pypto_build.diagnose.why.differ import differ
from pypto_build.diagnose.why.runs import Expected
from pypto_build.diagnose.why.trace import (
    AccessedView,
    Array,
    Instruction,
    SyncEvent,
    Tile,
    TileOperand,
    Variable,
    decoded,
)
from pypto_build.facts.accesses import SCRATCH, SPACES
from pypto_build.facts.tasks import TensorView
from pypto_build.replay.values import STORAGE, decode

# Contents of memory after a number of instructions of a call, with the values of the reference.
# Everything comes from the recording, so that a step back costs the same as a step forward.


@dataclass(frozen=True)
class Contents:
    """Elements with their values and the reference's values. `filled` marks elements that an instruction has read or
    written. `has_reference` marks elements that have a value in `expected`.
    """

    dtype: str
    values: Array
    filled: Array
    expected: Array
    has_reference: Array


def tile_contents(
    done: Sequence[Instruction], before: Sequence[Instruction], operand: TileOperand, expected: Expected
) -> Contents:
    """Return the contents of a tile after the instructions `done`. The later instructions `before` tell what the tile's
    memory held if no earlier one did.
    """
    offsets = operand.offsets()
    low, high = operand.address + int(offsets.min()), operand.address + int(offsets.max()) + operand.element
    raw, filled = _memory(done, before, operand.space, low, high)
    index = (offsets + operand.address - low)[..., None] + np.arange(operand.element)
    stored = np.ascontiguousarray(raw[index]).view(np.dtype(f"u{operand.element}"))[..., 0]
    values, has_reference = _expected(done, operand.space, offsets + operand.address, expected)
    return Contents(
        operand.dtype, decoded(stored, operand.dtype), np.asarray(filled[index].all(axis=-1)), values, has_reference
    )


def _memory(
    done: Sequence[Instruction], later: Sequence[Instruction], space: int, low: int, high: int
) -> tuple[Array, Array]:
    """Bytes of a memory of the core, and which of them are known."""
    raw, filled = np.zeros(high - low, np.uint8), np.zeros(high - low, bool)
    for instruction in reversed(done):
        for tile in (*instruction.written, *instruction.read):
            if tile.space == space:
                _fill(raw, filled, low, tile.span[0], tile.data[tile.operand.at : tile.operand.at + tile.operand.size])
        if filled.all():
            return raw, filled
    for instruction in later:  # what is read, and was not written in between, had been there
        for tile in instruction.read:
            if tile.space == space:
                _fill(raw, filled, low, tile.span[0], tile.data[tile.operand.at : tile.operand.at + tile.operand.size])
        if any(tile.space == space and tile.span[0] < high and tile.span[1] > low for tile in instruction.written):
            break
    return raw, filled


def _fill(raw: Array, filled: Array, low: int, first: int, data: memoryview) -> None:
    """Fill the bytes from `first` on that have no known value yet."""
    begin, end = max(first, low), min(first + len(data), low + len(raw))
    if begin >= end:
        return
    part = slice(begin - low, end - low)
    fresh = ~filled[part]
    raw[part][fresh] = np.frombuffer(data[begin - first : end - first], np.uint8)[fresh]
    filled[part] = True


def _expected(
    done: Sequence[Instruction], space: int | None, addresses: Array, expected: Expected
) -> tuple[Array, Array]:
    """Return the reference's values for the last writes to these addresses, and a mask of the known ones.

    ``space`` is a memory of the core, or None for global memory.
    """
    values, has_reference = np.zeros(addresses.shape), np.zeros(addresses.shape, bool)
    left = np.ones(addresses.shape, bool)
    low, high = int(addresses.min(initial=1 << 62)), int(addresses.max(initial=-1)) + 1
    for instruction in reversed(done):
        written: Sequence[Tile | AccessedView] = [tile for tile in instruction.written if tile.space == space]
        result: Tile | AccessedView | None = next(iter(instruction.results), None)
        if space is None:
            written = [view for view in instruction.views if view.writes]
            result = next(iter(written), None)
        for one in written:
            if one.span[0] < high and one.span[1] > low:  # the reference has what the first result holds, no scratch
                there = expected.values.get(instruction.number) if one is result else None
                _take(one.addresses, addresses, left, there, values, has_reference)
        if not left.any():
            break
    return values, has_reference


def _take(
    written: Array, addresses: Array, left: Array, matrix: Array | None, values: Array, has_reference: Array
) -> None:
    """Take from `left` the wanted addresses that an instruction wrote, and store the reference's values for them.

    `matrix` holds the reference's result of the instruction, if there is one. `has_reference` marks the values stored.
    """
    hit, rows, cols = _positions(written, addresses)
    hit &= left
    left &= ~hit
    if matrix is not None:
        inside = hit & (rows < matrix.shape[0]) & (cols < matrix.shape[1])
        values[inside] = matrix[rows[inside], cols[inside]].astype(np.float64)
        has_reference |= inside


def _positions(addresses: Array, searched: Array) -> tuple[Array, Array, Array]:
    """Return a mask of the wanted addresses that lie in a tile, with their rows and columns."""
    flat = addresses.reshape(-1)
    order = np.argsort(flat, kind="stable")
    at = np.minimum(np.searchsorted(flat, searched, sorter=order), len(flat) - 1)
    number = order[at]
    rows, cols = np.divmod(number, addresses.shape[1])
    return np.asarray(flat[number] == searched), rows, cols


def tensor_contents(
    done: Sequence[Instruction], slot: TensorView, before: bytes | mmap.mmap, expected: Expected
) -> Contents:
    """A task's tensor in global memory after the instructions `done`, as this call alone leaves it."""
    stored = np.dtype(STORAGE[slot.dtype])
    whole = np.frombuffer(before, np.uint8).copy()
    for instruction in done:
        for view in instruction.views:
            for first, data in view.runs:
                begin, end = max(first - slot.buffer, 0), min(first - slot.buffer + len(data), len(whole))
                if begin < end:
                    offset = slot.buffer - first
                    whole[begin:end] = np.frombuffer(data[begin + offset : end + offset], np.uint8)
    index = np.full(slot.shape, slot.offset, np.int64)
    for axis, (extent, stride) in enumerate(zip(slot.shape, slot.strides, strict=True)):
        index += (np.arange(extent) * stride).reshape([-1 if i == axis else 1 for i in range(len(slot.shape))])
    usable = whole[: len(whole) // stored.itemsize * stored.itemsize].view(stored)
    values = np.asarray(decode(usable[index], slot.dtype))
    expected_values, has_reference = _expected(done, None, slot.buffer + index * stored.itemsize, expected)
    return Contents(slot.dtype, values, np.ones(slot.shape, bool), expected_values, has_reference)


@dataclass(frozen=True)
class KernelStep:
    """An instruction, a flag or a barrier, with its name and lines.

    `count` is how often the name has occurred. `event` is its record. `done` is the number of instructions that are
    over after this step.
    """

    number: int
    name: str
    count: int
    path: str
    line: int
    pto_line: int
    event: Instruction | SyncEvent
    done: int

    @property
    def label(self) -> str:
        """`TADD#4`."""
        return f"{self.name}#{self.count}"


@dataclass(frozen=True)
class Operand:
    """A tile or a view of an instruction, with its role and, if known, its name in the kernel."""

    role: str
    name: str
    tile: Tile | None = None
    view: AccessedView | None = None


class _Names:
    """The names of variables by the address that they refer to in a memory, or in global memory (-1).

    If several variables refer to one address, those on the instruction's line come first, in their order there.
    """

    def __init__(self, variables: list[Variable], line: str) -> None:
        self.places: dict[tuple[int, int], list[str]] = {}
        words = re.findall(r"\w+", line)
        order = {word: at for at, word in reversed(list(enumerate(words)))}
        latest = [*reversed(variables)]
        for variable in sorted(latest, key=lambda one: order.get(one.name, len(words))):
            if variable.tile is not None:
                self.places.setdefault((variable.tile.space, variable.tile.address), []).append(variable.name)
            elif variable.holds == "view":
                self.places.setdefault((-1, int(variable.value)), []).append(variable.name)

    def take(self, location: tuple[int, int]) -> str:
        """Return the next name of an address, or an empty text if no variable refers to it."""
        names = self.places.get(location, [])
        return names.pop(0) if len(names) > 1 else names[0] if names else ""


class Stepped:
    """One kernel call of the recording, as steps."""

    def __init__(self, recording: TaskRecording, call: KernelCall, limits: Limits) -> None:
        self.recording, self.call, self.limits = recording, call, limits
        events = [event for event in call.trace.events if not isinstance(event, Variable)]
        positions = find_positions([event.site for event in events], recording.artifact)
        counts: Counter[str] = Counter()
        self.steps: list[KernelStep] = []
        self.until: list[int] = []  # of each step how many events of the trace are over
        number = {id(event): index for index, event in enumerate(call.trace.events)}
        done = 0
        for event in events:
            at = positions.get(event.site, InstructionPosition(event.name))
            counts[at.instruction] += 1
            done += isinstance(event, Instruction)
            line = call.expected.lines.get(event.number, 0) if isinstance(event, Instruction) else 0
            self.steps.append(
                KernelStep(len(self.steps), at.instruction, counts[at.instruction], at.path, at.line, line, event, done)
            )
            self.until.append(number[id(event)])

    @cached_property
    def own_path(self) -> str:
        """The kernel's file, as steps name it."""
        return relative_source(self.call.source.resolve(), self.recording.artifact.resolve())

    @cached_property
    def source(self) -> list[str]:
        """The lines of the kernel."""
        return _lines(self.call.source)

    @cached_property
    def module(self) -> list[str]:
        """The lines of the kernel's module, or none if it has no module."""
        return _lines(self.recording.artifact / self.call.module) if self.call.module else []

    def text(self, step: KernelStep) -> str:
        """The line of the kernel, or of the file that it includes."""
        lines = self.source if step.path == self.own_path else _lines(self.recording.artifact / step.path)
        return lines[step.line - 1].strip() if 0 < step.line <= len(lines) else ""

    def pto_text(self, step: KernelStep) -> str:
        """The line of the module."""
        return self.module[step.pto_line - 1].strip() if 0 < step.pto_line <= len(self.module) else ""

    # --- variables ---

    @cached_property
    def variable_events(self) -> dict[str, tuple[list[int], list[Variable]]]:
        """The recorded values of each variable by name, with their positions among the events."""
        events: dict[str, tuple[list[int], list[Variable]]] = {}
        for index, event in enumerate(self.call.trace.events):
            if isinstance(event, Variable):
                at, values = events.setdefault(event.name, ([], []))
                at.append(index)
                values.append(event)
        return events

    def variable(self, name: str, step: int) -> Variable | None:
        """Return the value of a variable at a step, or None before its first recorded value."""
        at, events = self.variable_events.get(name, ([], []))
        index = bisect_right(at, self.until[step])
        return events[index - 1] if index else None

    def variables(self, step: int) -> list[Variable]:
        """Return all variables recorded up to a step, in the order of their first record."""
        variables = [self.variable(name, step) for name in self.variable_events]
        return [variable for variable in variables if variable is not None]

    def module_scalars(self, step: int) -> dict[str, float | int]:
        """The numbers in the module's PyTorch when the last instruction of a step's had written."""
        events = self.call.expected.events
        number = self.steps[step].done - 1
        while number >= 0 and number not in events:
            number -= 1
        at = events[number] if number >= 0 else -1
        return self.call.scalars[at] if 0 <= at < len(self.call.scalars) else {}

    # --- operands ---

    def operands(self, step: KernelStep) -> list[Operand]:
        """Return the operands that the instruction writes and reads, `dst`, `src0`, `src1`, `tmp`, …"""
        event = step.event
        if isinstance(event, SyncEvent):
            return []
        names = _Names(self.variables(step.number), self.text(step))
        named: list[tuple[str, str, Tile | None, AccessedView | None]] = []
        for tile in (*event.written, *event.read):
            kind = "tmp" if tile.operand.access & SCRATCH else "dst" if tile.writes else "src"
            named.append((kind, names.take((tile.space, tile.operand.address)), tile, None))
        for view in event.views:
            first = int(view.addresses.flat[0]) if view.addresses.size else -1
            named.append(("dst" if view.writes else "src", names.take((-1, first)), None, view))
        kinds = Counter(kind for kind, *_ in named)
        count: Counter[str] = Counter()
        operands = []
        for kind, name, tile_, view_ in named:
            operands.append(Operand(kind if kinds[kind] == 1 else f"{kind}{count[kind]}", name, tile_, view_))
            count[kind] += 1
        return operands

    # --- contents ---

    def tile(self, operand: TileOperand, step: int, before: bool = False) -> Contents:
        """A tile as a step leaves it, or as it finds it."""
        done = self._done(step, before)
        instructions = self.call.trace.instructions
        return tile_contents(instructions[:done], instructions[done:], operand, self.call.expected)

    def tensor(self, argument: TaskTensor, step: int, before: bool = False) -> Contents:
        """A tensor of the task as a step leaves it."""
        done = self.call.trace.instructions[: self._done(step, before)]
        return tensor_contents(done, argument.tensor, map_file(argument.before), self.call.expected)

    def _done(self, step: int, before: bool) -> int:
        at = self.steps[step]
        return at.done - (before and isinstance(at.event, Instruction))

    def wrong(self, contents: Contents) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return a mask of the known elements that differ from the reference."""
        different = differ(
            contents.values, contents.expected, contents.dtype, self.limits, contents.expected[contents.has_reference]
        )
        return np.asarray(different & contents.has_reference & contents.filled)

    def differs(self, step: KernelStep) -> int:
        """Count the elements written by a step that differ from the reference."""
        event = step.event
        reference = self.call.expected.values.get(event.number) if isinstance(event, Instruction) else None
        if reference is None or not isinstance(event, Instruction) or not event.results:
            return 0
        tile = event.results[0]
        high, wide = min(reference.shape[0], tile.values.shape[0]), min(reference.shape[1], tile.values.shape[1])
        mine = tile.values[:high, :wide]
        return int(np.count_nonzero(differ(mine, reference[:high, :wide], tile.operand.dtype, self.limits)))

    @cached_property
    def parting(self) -> int | None:
        """The first step that writes something else than the reference."""
        return next((step.number for step in self.steps if self.differs(step)), None)


def _lines(path: Path) -> list[str]:
    return text_or_nothing(path).splitlines()


class Session:
    """A recording with one selected call and the current step."""

    def __init__(self, recording: TaskRecording, limits: Limits, kernel: str = "") -> None:
        self.recording, self.limits = recording, limits
        self._stepped: dict[tuple[int, int], Stepped] = {}
        self.at = 0
        self._call = next(iter(recording.calls))
        if kernel:
            self.choose(kernel)

    @property
    def now(self) -> Stepped:
        """The call that is stepped through."""
        if self._call not in self._stepped:
            self._stepped[self._call] = Stepped(self.recording, self.recording.calls[self._call], self.limits)
        return self._stepped[self._call]

    @property
    def step(self) -> KernelStep:
        """The current step."""
        return self.now.steps[self.at]

    def choose(self, kernel: str) -> None:
        """Another kernel of the task: by name, or as aic, aiv, aiv0, aiv1."""
        name = "aiv0" if kernel == "aiv" else kernel
        for key, call in self.recording.calls.items():
            if name in (call.kernel, MEMBERS[call.member]):
                self._call, self.at = key, 0
                return
        names = ", ".join(f"{MEMBERS[call.member]} {call.kernel}" for call in self.recording.calls.values())
        raise ArtifactError("", f"task {self.recording.task} has no kernel '{kernel}'", f"its kernels are {names}")

    def move(self, by: int) -> bool:
        """Move the current step forward or back. Returns False at the first or last step."""
        goal = min(max(self.at + by, 0), len(self.now.steps) - 1)
        moved, self.at = goal != self.at, goal
        return moved

    def goto(self, where: str) -> None:
        """`69`, `kernel.cpp:69` or `x.pto:12`; `#12`; `TADD#4`; `v17`, what writes it next. Raises ArtifactError."""
        self.at = self._step_of(where.strip())

    def _step_of(self, where: str) -> int:
        steps = self.now.steps
        if where in ("first", "last"):
            return 0 if where == "first" else len(steps) - 1
        if re.fullmatch(r"#\d{1,9}", where):
            number = int(where[1:])
            if number < len(steps):
                return number
            raise ArtifactError("", f"step {where} does not exist", f"the last step is #{len(steps) - 1}")
        if match := re.fullmatch(r"(?:(.*):)?(\d{1,9})", where):
            return self._at_line(match[1] or "", int(match[2]))
        if match := re.fullmatch(r"([A-Za-z_]\w*)#(\d{1,9})", where):
            return self._nth(match[1], int(match[2]))
        if any(step.name == where for step in steps):
            ahead = [step.number for step in steps[self.at :] if step.name == where]
            return ahead[0] if ahead else self._nth(where, 1)
        return self._writer(where)

    def _at_line(self, file: str, line: int) -> int:
        steps = self.now.steps
        if file.endswith(".pto"):
            matches = [step for step in steps if step.pto_line == line]
        else:
            matches = [step for step in steps if step.line == line and (not file or step.path.endswith(file))]
        if matches:
            ahead = [step.number for step in matches if step.number >= self.at]
            return ahead[0] if ahead else matches[0].number
        later = sorted({s.pto_line if file.endswith(".pto") else s.line for s in steps} - {0})
        near = min(later, key=lambda one: abs(one - line), default=0)
        raise ArtifactError("", f"line {line} executes nothing", f"the nearest line that executes something is {near}")

    def _nth(self, name: str, count: int) -> int:
        numbers = [step.number for step in self.now.steps if step.name == name]
        if 1 <= count <= len(numbers):
            return numbers[count - 1]
        names = ", ".join(dict.fromkeys(step.name for step in self.now.steps))
        hint = f"there {'is' if len(numbers) == 1 else 'are'} {len(numbers)}" if numbers else f"there are {names}"
        raise ArtifactError("", f"{name}#{count} does not exist", hint)

    def _writer(self, name: str) -> int:
        """Return the next step that writes a tile, or the first step that does if none follows."""
        if name not in self.now.variable_events:
            raise ArtifactError(
                "",
                f"'{name}' is not an instruction, line or variable of this kernel",
                "write a target such as 69, TADD#4 or v17",
            )
        writers = [step.number for step in self.now.steps if self._writes(step, name)]
        if not writers:
            raise ArtifactError("", f"no step writes '{name}'", "name a tile that is written")
        ahead = [number for number in writers if number > self.at]
        return ahead[0] if ahead else writers[0]

    def _writes(self, step: KernelStep, name: str) -> bool:
        variable = self.now.variable(name, step.number)
        if variable is None or variable.tile is None or isinstance(step.event, SyncEvent):
            return False
        low = variable.tile.address
        high = low + variable.tile.rows * variable.tile.cols * variable.tile.element
        return any(
            tile.space == variable.tile.space and tile.span[0] < high and tile.span[1] > low
            for tile in step.event.results
        )


def location_text(operand: TileOperand) -> str:
    """`UB 0x40  128x128 float32`."""
    return f"{SPACES[operand.space]} 0x{operand.address:x}  {operand.height}x{operand.width} {operand.dtype}"
