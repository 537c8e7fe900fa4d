"""The second runs of `why`: calls of the cone once more as compiled, every instruction traced, and by the reference.

Calls outside of the cone are left out where those within depend on others by what they load alone; else everything
runs. So many calls are traced at a time as fit into memory, beginning with the one that is asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pypto_build.diagnose.diverge.lockstep import Stop
from pypto_build.diagnose.diverge.probe import Event, Recorder, instruction_of, pairs
from pypto_build.diagnose.why.find import Call, Found, checked_kernels, run
from pypto_build.diagnose.why.trace import Instruction, read_trace
from pypto_build.replay.reference.hook import ReferenceFault, References, slots_of
from pypto_build.replay.reference.launch import Launch
from pypto_build.replay.reference.slots import TensorArgument
from pypto_build.replay.values import STORAGE, decode

ROLES = {"aic": 0, "aiv": 1, "aiv0": 1, "aiv1": 2}
#: What is traced at a time: so many calls, and bytes of what their instructions read and write, which are some times
#: what they load and store.
_CALLS, _BYTES, _TIMES = 48, 64 << 20, 8


class Values(Mapping[int, np.ndarray[Any, Any]]):
    """Values by the number of the instruction, decoded when they are asked for: of a large call not all at once."""

    def __init__(self) -> None:
        self._stored: dict[int, tuple[Event, str]] = {}

    def keep(self, number: int, event: Event, dtype: str) -> None:
        """An event has the values of an instruction."""
        self._stored[number] = event, dtype

    def __getitem__(self, number: int) -> np.ndarray[Any, Any]:
        event, dtype = self._stored[number]
        stored = np.frombuffer(event.data, dtype=STORAGE[dtype])
        return decode(stored, dtype).reshape(event.rows, event.cols)

    def __iter__(self) -> Iterator[int]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)


@dataclass
class Expected:
    """What the reference had where a kernel's instructions wrote: line of the module, values, by the instruction."""

    lines: dict[int, int] = field(default_factory=dict)
    values: Values = field(default_factory=lambda: Values())
    instead: dict[int, str] = field(default_factory=dict)  # the operation that an instruction stands in place of
    events: dict[int, int] = field(default_factory=dict)  # which of the reference's events it is


@dataclass
class Traced:
    """One member of one block of a task: its instructions, and what they should have written.

    `slots` are the tensors of the task in the run that traced it, in the order of its arguments, with `names`.
    """

    task: int
    block: int
    member: int
    kernel: str
    module: str
    instructions: list[Instruction]
    expected: Expected
    slots: list[TensorArgument]
    names: list[str]

    def place(self, address: int) -> tuple[int, int] | None:
        """Return the index of the tensor buffer with an address, and the byte offset in it."""
        for index, slot in enumerate(self.slots):
            if slot.buffer <= address < slot.buffer + slot.size:
                return index, address - slot.buffer
        return None


_Told = Mapping[tuple[int, int, int], tuple[list[Event], list[str]]]


@dataclass
class _Runs:
    """What one round brought: of each task its tensors and its kernels by member, what the reference told by task,
    block and member, and by kernel the module it is made from."""

    slots: dict[int, list[TensorArgument]] = field(default_factory=dict)
    positions: dict[int, list[int]] = field(default_factory=dict)
    kernels: dict[int, dict[int, str]] = field(default_factory=dict)
    events: dict[tuple[int, int, int], tuple[list[Event], list[str]]] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)


class Runs:
    """Traces of calls. `plan` says, of a call that is not traced yet, which calls are traced with it, and on which
    calls these depend (None: all are made)."""

    def __init__(
        self, launch: Launch, checked: Path, found: Found, plan: Callable[[Call], tuple[list[Call], list[Call] | None]]
    ) -> None:
        self.launch, self.found, self._plan = launch, found, plan
        self.poison = True  # whether anything that is not written may be loaded
        self.last: Call = (-1, -1)
        self.intact: Callable[[], bool] = lambda: True  # whether the call `last` left what it left in the first run
        self._checked = checked_kernels(launch, checked)
        self._directory = launch.build_dir / "why" / "traced"
        self._traced: dict[Call, list[Traced]] = {}
        self.varies = False  # whether the run that was traced left something else

    def of(self, call: Call) -> list[Traced]:
        """The members of a block of a task."""
        if call not in self._traced:
            self._traced |= self._round(*self._plan(call))
            self._traced.setdefault(call, [])
        return self._traced[call]

    def too_large(self, call: Call) -> str:
        """Why a call cannot be traced; empty where it can. Its trace is on the disk, and so is the reference's."""
        size = self.found.bytes_of(call)
        free = shutil.disk_usage(self.launch.build_dir).free
        if 2 * _TIMES * size < free:
            return ""
        block = f" block {call[1]}" if self.found.tasks[call[0]].block_num > 1 else ""
        return (
            f"task {call[0]}{block} loads and stores {size >> 20} MB, whose trace needs {2 * _TIMES * size >> 20} MB: "
            f"{self.launch.build_dir} has {free >> 20}"
        )

    def forget(self, call: Call) -> None:
        """Its trace is needed no more."""
        self._traced.pop(call, None)

    def _round(self, calls: list[Call], needed: list[Call] | None) -> dict[Call, list[Traced]]:
        self._directory.mkdir(parents=True, exist_ok=True)
        self._clear()
        runs = _Runs()
        self._look(calls, needed, runs)
        if self.last in calls and not self.intact():
            if needed is not None:  # they depend on more than what they load
                needed = None
                self._look(calls, needed, runs)
            self.varies = not self.intact()
        self._refer(calls, needed, runs)
        found: dict[Call, list[Traced]] = {call: [] for call in calls}
        for stem in sorted(self._directory.glob("trace.*.json"), key=position_of):
            number, block, _ = position_of(stem)
            if number in runs.slots:
                found.setdefault((number, block), []).append(self._read(stem, runs))
        self._clear()  # what was read stays mapped
        return found

    def _clear(self) -> None:
        for old in self._directory.glob("trace.*"):
            old.unlink()

    def _look(self, calls: list[Call], needed: list[Call] | None, runs: _Runs) -> None:
        """Run with the calls traced."""
        last = max(calls)[0]
        names = {
            self.found.kernels.get(func_id, "") for number, _ in calls for func_id in self.found.tasks[number].kernels
        }

        def until(call: Any) -> None:
            if call.number > last:
                raise Stop
            slots = slots_of(call)
            at = [i for i, slot in enumerate(slots) if isinstance(slot, TensorArgument)]
            runs.slots[call.number] = [slot for slot in slots if isinstance(slot, TensorArgument)]
            runs.positions[call.number] = at
            runs.kernels[call.number] = {ROLES[role]: name for role, _, name in call.kernels}
            call.run()

        options = {
            "output_dir": str(self._directory), "trace": flat(calls), "hooked": flat([*calls, *self._after(last)]),
            "only": [] if needed is None else flat(needed), "poison": self.poison,
        }  # fmt: skip
        libraries = {name: path for name, path in self._checked.items() if name in names}
        with suppress(Stop):
            run(self.launch, until, options, libraries)

    def _after(self, last: int) -> list[Call]:
        """A call at which a run may end where those up to a task are looked at."""
        return [(last + 1, -1)] if last + 1 < len(self.found.tasks) else []

    def _refer(self, calls: list[Call], needed: list[Call] | None, runs: _Runs) -> None:
        """Run by the reference, which tells what it wrote in the calls."""
        recorder = Recorder(kept=self._directory / "reference.bin")
        artifact, numerics = self.launch.artifact, self.launch.numerics
        plain, probed = References(artifact, numerics=numerics), References(artifact, recorder, numerics)
        asked, last = set(calls), max(calls)[0]

        def until(call: Any) -> None:
            if call.number > last:
                raise Stop
            block = call.block or 0
            together = call.block is None and call.block_num > 1  # whose events are whose is not known
            if together or (call.number, block) not in asked:
                if not plain.execute(call):
                    call.run()
                return
            recorder.clear()
            members = probed.members(call)
            if members is None:
                call.run()
                return
            with suppress(ReferenceFault):
                probed.execute(call)
            for member, (role, _, name) in zip(members, call.kernels, strict=True):
                path = member.body.unit.path
                runs.modules[name] = path.relative_to(self.launch.artifact).as_posix()
                told = recorder.of(member)
                runs.events[call.number, block, ROLES[role]] = told.events, told.dtypes

        with suppress(Stop):
            run(self.launch, until, {"only": [] if needed is None else flat(needed), "poison": self.poison}, {})

    def _read(self, stem: Path, runs: _Runs) -> Traced:
        number, block, member = position_of(stem)
        instructions = read_trace(stem.with_name(stem.name.removesuffix(".json"))).instructions
        told = runs.events.get((number, block, member))
        expected = aligned(instructions, *told) if told else Expected()
        kernel = runs.kernels[number].get(member, "")
        given = self.found.names.get(number, [])
        names = [
            given[at] if at < len(given) else f"argument {position} of task {number}"
            for at, position in enumerate(runs.positions[number])
        ]
        return Traced(
            number,
            block,
            member,
            kernel,
            runs.modules.get(kernel, ""),
            instructions,
            expected,
            runs.slots[number],
            names,
        )


def flat(calls: Iterable[Call]) -> list[int]:
    """Calls as the runtime is told them."""
    return [number for call in calls for number in call]


def as_many(found: Found, calls: Iterable[Call], least: int = 1) -> list[Call]:
    """The first of some calls that are traced at a time, `least` of them however large they are."""
    chosen: list[Call] = []
    left = _BYTES
    for call in calls:
        left -= _TIMES * found.bytes_of(call)
        if len(chosen) >= least and (left < 0 or len(chosen) == _CALLS):
            break
        chosen.append(call)
    return chosen


def position_of(stem: Path) -> tuple[int, int, int]:
    """Task, block and member of a trace, by its file's name."""
    _, task, block, member, _ = stem.name.split(".")
    return int(task), int(block), int(member)


def aligned(instructions: list[Instruction], events: list[Event], dtypes: list[str]) -> Expected:
    """Instructions and operations of the module that belong together; where one stands for another, those too."""
    telling = [
        one for one in instructions if one.written or any(view.writes for view in one.views) or one.name == "TPUSH"
    ]
    expected = Expected()
    for kind, here, there in pairs([one.name for one in telling], [instruction_of(event.name) for event in events]):
        if kind not in ("equal", "replace") or here >= len(telling) or there >= len(events):
            continue
        event, number = events[there], telling[here].number
        expected.events[number] = there
        expected.lines[number] = event.line
        if kind == "replace":
            expected.instead[number] = event.name
        if len(event.data) == event.rows * event.cols * np.dtype(STORAGE[dtypes[there]]).itemsize:
            expected.values.keep(number, event, dtypes[there])
    return expected
