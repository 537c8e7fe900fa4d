"""The runs that `why` makes: one that tells who writes what, then for each task on the way one as compiled, with every
instruction traced, and one by the reference alone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pypto_build.artifact.records import kernel_binary
from pypto_build.diagnose.diverge.lockstep import Stop
from pypto_build.diagnose.diverge.probe import Event, Recorder, instruction_of, pairs
from pypto_build.diagnose.hazards.record import Record, read_record
from pypto_build.diagnose.recorded.graph import Task, TaskArg, TaskGraph
from pypto_build.diagnose.recorded.sites import match_tasks, read_sites
from pypto_build.diagnose.why.trace import WRITE, Instruction, read_trace
from pypto_build.replay.reference.hook import ReferenceFault, References, slots_of
from pypto_build.replay.reference.launch import Launch
from pypto_build.replay.reference.slots import TensorArgument
from pypto_build.replay.values import STORAGE, decode

_KINDS = {"IN": "INPUT", "OUT": "OUTPUT", "INOUT": "INOUT"}
ROLES = {"aic": 0, "aiv": 1, "aiv0": 1, "aiv1": 2}


@dataclass(frozen=True)
class TaskInfo:
    """A task of the first run: its kernels by member, its tensors by argument, and those that it may write."""

    number: int
    kernels: dict[int, str]
    tensors: dict[int, TensorArgument]
    writes: frozenset[int]
    names: dict[int, str] = field(default_factory=dict)  # what the orchestration calls them
    blocks: int = 1


@dataclass
class Expected:
    """What the reference had where a kernel's instructions wrote: line of the module, values, by the instruction."""

    lines: dict[int, int] = field(default_factory=dict)
    values: dict[int, np.ndarray[Any, Any]] = field(default_factory=dict)
    instead: dict[int, str] = field(default_factory=dict)  # the operation that an instruction stands in place of
    events: dict[int, int] = field(default_factory=dict)  # which of the reference's events it is


@dataclass
class Traced:
    """One member of one block of a task: its instructions, and what they should have written."""

    task: int
    block: int
    member: int
    kernel: str
    module: str
    instructions: list[Instruction]
    expected: Expected


def tasks_of(launch: Launch) -> list[TaskInfo]:
    """Run everything; who was given what, in the order of submission."""
    found: dict[int, TaskInfo] = {}
    submitted: dict[int, Task] = {}

    def note(call: Any) -> None:
        if call.number not in found:
            tensors = {i: slot for i, slot in enumerate(slots_of(call)) if isinstance(slot, TensorArgument)}
            directions = {i: getattr(call.args[i], "direction", "") for i in tensors}
            writes = frozenset(i for i, direction in directions.items() if direction != "IN")
            kernels = {ROLES[role]: name for role, _, name in call.kernels}
            found[call.number] = TaskInfo(call.number, kernels, tensors, writes, blocks=call.block_num)
            args = tuple(TaskArg(i, _KINDS.get(directions[i], "NO_DEP"), None, "", ()) for i in tensors)
            func_ids = tuple(dict.fromkeys(func_id for _, func_id, _ in call.kernels))
            submitted[call.number] = Task(call.number, func_ids, args=args)
        call.run()

    launch.run(note)
    source = launch.artifact / launch.interface.orchestration.source
    sites = match_tasks(TaskGraph(source, tuple(submitted.values()), ()), read_sites(source))
    for number, info in found.items():
        given = sites[number].args if number in sites else ()
        info.names.update({i: arg.variable.removeprefix("ext_") for i, arg in zip(info.tensors, given, strict=False)})
    return [found[number] for number in sorted(found)]


class Runs:
    """Traces of tasks, made when they are asked for. Tasks before one run as they are replayed, and of one with many
    blocks it is first found out which has stored what is looked for: only that one is traced."""

    def __init__(self, launch: Launch, checked: Path) -> None:
        self.launch = launch
        self.directory = launch.build_dir / "why"
        kernels = launch.interface.kernels
        self.checked = {
            kernel.func_id: checked / f"{kernel_binary(kernel.core_type, kernel.name)}.so" for kernel in kernels
        }
        self._traced: dict[tuple[int, int], list[Traced]] = {}
        self._records: dict[int, Record] = {}
        self.addresses: dict[int, dict[int, TensorArgument]] = {}  # of each traced task in the run that traced it

    def task(self, info: TaskInfo) -> list[Traced]:
        """Every member of every block of a task."""
        return self._of(info, -1)

    def group(self, info: TaskInfo, block: int) -> list[Traced]:
        """The members of one block of a task."""
        return [one for one in self._of(info, -1 if info.blocks == 1 else block) if one.block == block]

    def storing(self, info: TaskInfo, index: int, offset: int) -> list[Traced]:
        """The members of the block of a task that stored a byte of one of its tensors last; none where none did."""
        if info.blocks == 1:
            return self._of(info, -1)
        if info.number not in self._records:
            directory = self._run(info, {"trace_task": -1})
            self._records[info.number] = read_record(directory)
        regions = self._records[info.number].regions
        address = self.addresses[info.number][index].buffer + offset
        blocks = regions["block"][_covering(regions, address) & ((regions["kind"] & WRITE) > 0)]
        return self._of(info, int(blocks.max())) if len(blocks) else []

    def _of(self, info: TaskInfo, block: int) -> list[Traced]:
        key = info.number, block
        if key not in self._traced:
            directory = self._run(info, {"trace_task": info.number, "trace_block": block})
            events, modules = self._reference(info, block)
            stems = sorted(directory.glob("trace.*.json"), key=position_of)
            self._traced[key] = [_traced(info, stem, events, modules) for stem in stems]
        return self._traced[key]

    def _run(self, info: TaskInfo, settings: Mapping[str, int]) -> Path:
        """Run up to a task, that one checked; the directory of what it left."""
        directory = self.directory / str(info.number)
        directory.mkdir(parents=True, exist_ok=True)
        for old in (*directory.glob("trace.*"), *directory.glob("accesses.*")):
            old.unlink()

        def until(call: Any) -> None:
            if call.number > info.number:
                raise Stop
            if call.number == info.number:
                slots = slots_of(call)
                self.addresses[info.number] = {i: s for i, s in enumerate(slots) if isinstance(s, TensorArgument)}
                for func_id in {func_id for _, func_id, _ in call.kernels} & set(self.checked):
                    self.launch.replace(func_id, self.checked[func_id])
            call.run()

        options = dict(self.launch.options)
        self.launch.options = {
            **options, **settings, "output_dir": str(directory), "accesses": True, "poison": True,
        }  # fmt: skip
        try:
            with suppress(Stop):
                self.launch.run(until)
        finally:
            self.launch.options = options
        return directory

    def _reference(
        self, info: TaskInfo, block: int
    ) -> tuple[Mapping[tuple[int, int], tuple[list[Event], list[str]]], dict[int, str]]:
        """By block and member what the reference wrote, and by member the module it is made from."""
        recorder = Recorder()
        plain, probed = References(self.launch.artifact), References(self.launch.artifact, recorder)
        events: dict[tuple[int, int], tuple[list[Event], list[str]]] = {}
        modules: dict[int, str] = {}

        def until(call: Any) -> None:
            if call.number > info.number:
                raise Stop
            if call.number < info.number:
                if not plain.execute(call):
                    call.run()
                return
            if block not in (-1, call.block or 0):
                return  # what other blocks store is not asked for
            recorder.clear()
            members = probed.members(call) or []
            with suppress(ReferenceFault):
                probed.execute(call)
            if call.block is None and call.block_num > 1:
                return  # all blocks at once: whose events are whose is not known
            for member, (role, _, _) in zip(members, call.kernels, strict=True):
                path = member.body.unit.path
                modules[ROLES[role]] = path.relative_to(self.launch.artifact).as_posix()
                told = recorder.of(member)
                events[call.block or 0, ROLES[role]] = told.events, told.dtypes

        with suppress(Stop):
            self.launch.run(until)
        return events, modules


def _covering(regions: np.ndarray[Any, Any], address: int) -> np.ndarray[Any, Any]:
    """Which regions a byte of global memory is in."""
    base, stride = regions["base"].astype(np.int64), np.maximum(regions["stride"].astype(np.int64), 1)
    distance = address - base
    row = np.where(regions["stride"] > 0, distance // stride, 0)
    inside = (distance - row * stride * (regions["stride"] > 0)) < regions["length"].astype(np.int64)
    return np.asarray((distance >= 0) & (row < regions["rows"]) & inside)


def position_of(stem: Path) -> tuple[int, int]:
    """Block and member of a trace, by its file's name."""
    _, block, member, _ = stem.name.split(".")
    return int(block), int(member)


def _traced(
    info: TaskInfo,
    path: Path,
    events: Mapping[tuple[int, int], tuple[list[Event], list[str]]],
    modules: Mapping[int, str],
) -> Traced:
    block, member = position_of(path)
    instructions = read_trace(path.with_name(path.name.removesuffix(".json"))).instructions
    expected = Expected()
    if (block, member) in events:
        expected = aligned(instructions, *events[block, member])
    return Traced(
        info.number, block, member, info.kernels.get(member, ""), modules.get(member, ""), instructions, expected
    )


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
        stored = np.frombuffer(event.data, dtype=STORAGE[dtypes[there]])
        if stored.size == event.rows * event.cols:
            expected.values[number] = decode(stored, dtypes[there]).reshape(event.rows, event.cols)
    return expected
