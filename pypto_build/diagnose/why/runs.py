"""The second runs of `why`: calls of the cone run again as compiled, with every instruction traced, and by the
reference.

Calls outside of the cone are skipped if the loads of the calls inside are known exactly; otherwise, everything runs. As
many calls are traced at a time as fit into memory, beginning with the requested one.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pypto_build.artifact.cpp.text import without_comments
from pypto_build.artifact.layout import load_artifact
from pypto_build.artifact.records import kernel_binary
from pypto_build.diagnose.diverge.lockstep import Stop
from pypto_build.diagnose.diverge.probe import Event, Recorder, instruction_of, pairs
from pypto_build.diagnose.hazards.record import Record, TaskRecord, read_record
from pypto_build.diagnose.why.trace import Array, Instruction, Intervals, read_trace
from pypto_build.facts.accesses import ATOMIC, READ, WRITE
from pypto_build.facts.tasks import LANES, TensorView, slots_of
from pypto_build.replay.reference.hook import ReferenceFault, References
from pypto_build.replay.reference.launch import Launch
from pypto_build.replay.values import STORAGE, decode

# The first run of `why`: everything is executed, and of each kernel call only what it loads and stores is recorded.

#: A block of a task, by the task's number.
Call = tuple[int, int]

#: What C++ itself may read or write: an element of an array, what a pointer points to.
_PLAIN = re.compile(r"\w\[|[=(,;{]\s*\*|->|\bmemcpy\b")
#: What stands in every kernel: directives, the arguments of the entry, and the members of its tensors.
_ENTRY = re.compile(r"^[ \t]*#[^\n]*|\bargs\[\d+\]|\w+_tensor->\w+(\.\w+)*", re.MULTILINE)
_INCLUDE = re.compile(r"#\s*include\s*[<\"]([^>\"]+)[>\"]")
_OURS = {"cstdint", "stdint.h", "pto/pto-inst.hpp", "tensor.h", "intrinsic.h", "runtime.h", "pto/common/fifo.hpp"}
#: Pieces of a task's regions beyond which only their hulls are looked at.
_MOST_PIECES = 1 << 22


class FirstRun:
    """The record of the first run: its tasks by number, with their loads and stores."""

    def __init__(self, launch: Launch, record: Record) -> None:
        self.record = record
        self.tasks: list[TaskRecord] = [record.tasks[at] for at in record.positions]

        self._artifact = launch.artifact
        self._source = launch.artifact / launch.interface.orchestration.source
        self.kernels = {kernel.func_id: kernel.name for kernel in launch.interface.kernels}

    def regions_of(self, number: int) -> Array:
        """The regions of global memory that a task touched."""
        return self.record.regions[self.record.regions_of(number)]

    @cached_property
    def names(self) -> Mapping[int, list[str]]:
        """Return the orchestration's names for the tensors of each task, in the order of its arguments."""
        sites = self.record.submitted(self._source)
        return {number: [arg.expression.removeprefix("ext_") for arg in site.tensors] for number, site in sites.items()}

    @cached_property
    def opaque(self) -> frozenset[int]:
        """Return the func_ids of kernels that may access memory without instructions."""
        sources = {kernel.func_id: kernel.source for kernel in load_artifact(self._artifact).kernels}
        return frozenset(func_id for func_id, source in sources.items() if may_be_plain(source))

    @cached_property
    def by_itself(self) -> bool:
        """Return whether calls depend on others through loads alone.

        That holds if the run has no conditions, no signals and no reads of the orchestration.
        """
        document = self.record.document
        try:
            text = self._source.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        return not (document.host_waits or self.record.signalling or "predicate" in text or "get_tensor_data" in text)

    def is_opaque(self, number: int) -> bool:
        """Return whether one of a task's kernels is opaque."""
        return any(func_id in self.opaque for func_id in self.tasks[number].kernels)

    @cached_property
    def _stores(self) -> Array:
        return np.flatnonzero((self.record.regions["kind"] & WRITE) > 0)

    def writers(self, address: int, before: int) -> Iterator[Call]:
        """Yield the calls that stored to an address in tasks before number `before`, the last first."""
        stores = self._stores[: np.searchsorted(self._stores, self.record.first_region[before])]
        regions = self.record.regions[stores]
        hit = regions[_covering(regions, address)]
        calls = sorted({(int(one["task"]), int(one["block"])) for one in hit}, reverse=True)
        yield from calls

    def bytes_of(self, call: Call) -> int:
        """Return the number of bytes that a call loads and stores."""
        regions = self.regions_of(call[0])
        regions = regions[regions["block"] == call[1]]
        return int((regions["rows"].astype(np.int64) * regions["length"].astype(np.int64)).sum())

    @cached_property
    def stored_hulls(self) -> tuple[list[int], list[int]]:
        """Return for each task the first byte that it may store, and one past the last."""
        return self._hulls(WRITE, lambda arg: arg.writes)

    @cached_property
    def loaded_hulls(self) -> tuple[list[int], list[int]]:
        """The first byte that each task may load, and one past the last."""
        return self._hulls(READ, lambda arg: arg.reads)

    def _hulls(self, kind: int, of: Callable[[Any], bool]) -> tuple[list[int], list[int]]:
        count = len(self.tasks)
        low, high = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
        regions = self.record.regions
        chosen = (regions["kind"] & kind) > 0
        np.minimum.at(low, regions["task"][chosen], regions["base"][chosen].astype(np.int64))
        np.maximum.at(high, regions["task"][chosen], self.record.ends[chosen].astype(np.int64))
        for number in range(count) if self.opaque else ():
            for arg in self.tasks[number].args if self.is_opaque(number) else ():
                if of(arg):
                    low[number], high[number] = min(low[number], arg.span[0]), max(high[number], arg.span[1])
        return low.tolist(), high.tolist()


def find(launch: Launch, checked: Path) -> FirstRun:
    """Run everything with the checked kernels. The arena then holds the results."""
    directory = launch.build_dir / "why" / "find"
    directory.mkdir(parents=True, exist_ok=True)
    run(
        launch, None, {"output_dir": str(directory), "accesses": True, "serial": True}, checked_kernels(launch, checked)
    )
    return FirstRun(launch, read_record(directory))


def checked_kernels(launch: Launch, checked: Path) -> dict[str, Path]:
    """The checked build of each kernel, by name."""
    kernels = launch.interface.kernels
    return {one.name: checked / f"{kernel_binary(one.core_type, one.name)}.so" for one in kernels}


def run(
    launch: Launch, callback: Callable[[Any], None] | None, options: Mapping[str, Any], libraries: Mapping[str, Path]
) -> None:
    """Run the launch with other options; the checked kernels only record, and judge nothing."""
    settings = {**launch.options, "judge": False, "poison": True, **options}
    replace(launch, options=settings).run(callback, libraries)


def may_be_plain(source: Path) -> bool:
    """Return whether a kernel may access global memory other than by instructions; true in doubt."""
    try:
        text = source.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    if not set(_INCLUDE.findall(text)) <= _OURS:
        return True
    return _PLAIN.search(_ENTRY.sub(" ", without_comments(text))) is not None


def pieces(regions: Array) -> Intervals:
    """The bytes of regions; of very many pieces only the hulls."""
    base, length = regions["base"].astype(np.int64), regions["length"].astype(np.int64)
    rows, stride = regions["rows"].astype(np.int64), regions["stride"].astype(np.int64)
    if int(rows.sum()) > _MOST_PIECES:
        return Intervals.of(base, base + (rows - 1) * stride + length)
    if (rows > 1).any():
        which = np.repeat(np.arange(len(rows)), rows)
        row = np.arange(len(which)) - np.repeat(np.cumsum(rows) - rows, rows)
        base, length = base[which] + row * stride[which], length[which]
    return Intervals.of(base, base + length)


def exact(regions: Array) -> bool:
    """Return whether `pieces` cover exactly the regions."""
    return int(regions["rows"].astype(np.int64).sum()) <= _MOST_PIECES


def is_atomic(regions: Array) -> Array:
    """Return a mask of the regions that are written by atomic addition."""
    return np.asarray((regions["kind"] & ATOMIC) > 0)


def _covering(regions: Array, address: int) -> Array:
    """Return a mask of the regions that contain a byte of global memory."""
    base, stride = regions["base"].astype(np.int64), np.maximum(regions["stride"].astype(np.int64), 1)
    distance = address - base
    row = np.where(regions["stride"] > 0, distance // stride, 0)
    inside = (distance - row * stride * (regions["stride"] > 0)) < regions["length"].astype(np.int64)
    return np.asarray((distance >= 0) & (row < regions["rows"]) & inside)


#: What is traced at a time: so many calls, and bytes of what their instructions read and write, which are some times
#: what they load and store.
_CALLS, _BYTES, _TIMES = 48, 64 << 20, 8


class Values(Mapping[int, np.ndarray[Any, Any]]):
    """Decoded values by the number of the instruction. They are decoded on access, because a large call has many."""

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
    """The reference's lines and values for the results of a kernel's instructions, by the instruction."""

    lines: dict[int, int] = field(default_factory=dict)
    values: Values = field(default_factory=lambda: Values())
    instead: dict[int, str] = field(default_factory=dict)  # the operation that an instruction stands in place of
    events: dict[int, int] = field(default_factory=dict)  # which of the reference's events it is


@dataclass
class Traced:
    """One member of one block of a task: its instructions, and the values that they should have written.

    `slots` are the task's tensors in the run that traced it, in the order of its arguments, with `names`.
    """

    task: int
    block: int
    member: int
    kernel: str
    module: str
    instructions: list[Instruction]
    expected: Expected
    slots: list[TensorView]
    names: list[str]

    def place(self, address: int) -> tuple[int, int] | None:
        """Return the index of the tensor buffer with an address, and the byte offset in it."""
        for index, slot in enumerate(self.slots):
            if slot.buffer <= address < slot.buffer + slot.size:
                return index, address - slot.buffer
        return None


@dataclass
class _Runs:
    """The results of one round of runs.

    Tensors and kernels (by member) are listed by task, the reference's events by task, block and member. `modules` has
    the module of each kernel.
    """

    slots: dict[int, list[TensorView]] = field(default_factory=dict)
    positions: dict[int, list[int]] = field(default_factory=dict)
    kernels: dict[int, dict[int, str]] = field(default_factory=dict)
    events: dict[tuple[int, int, int], tuple[list[Event], list[str]]] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)


class Runs:
    """Traces of calls. For a call without a trace, `plan` returns the calls to trace with it and the calls that these
    depend on (None: all calls run).
    """

    def __init__(
        self,
        launch: Launch,
        checked: Path,
        first_run: FirstRun,
        plan: Callable[[Call], tuple[list[Call], list[Call] | None]],
    ) -> None:
        self.launch, self.first_run, self._plan = launch, first_run, plan
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
        """Return the reason why a call cannot be traced, or an empty text.

        Its trace and the trace of the reference must fit on the disk.
        """
        size = self.first_run.bytes_of(call)
        free = shutil.disk_usage(self.launch.build_dir).free
        if 2 * _TIMES * size < free:
            return ""
        block = f" block {call[1]}" if self.first_run.tasks[call[0]].block_num > 1 else ""
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
        self._search(calls, needed, runs)
        if self.last in calls and not self.intact():
            if needed is not None:  # they depend on more than what they load
                needed = None
                self._search(calls, needed, runs)
            self.varies = not self.intact()
        self._refer(calls, needed, runs)
        traced: dict[Call, list[Traced]] = {call: [] for call in calls}
        for stem in sorted(self._directory.glob("trace.*.json"), key=position_of):
            number, block, _ = position_of(stem)
            if number in runs.slots:
                traced.setdefault((number, block), []).append(self._read(stem, runs))
        self._clear()  # what was read stays mapped
        return traced

    def _clear(self) -> None:
        for old in self._directory.glob("trace.*"):
            old.unlink()

    def _search(self, calls: list[Call], needed: list[Call] | None, runs: _Runs) -> None:
        """Run with the calls traced."""
        last = max(calls)[0]
        names = {
            self.first_run.kernels.get(func_id, "")
            for number, _ in calls
            for func_id in self.first_run.tasks[number].kernels
        }

        def until(call: Any) -> None:
            if call.number > last:
                raise Stop
            slots = slots_of(call)
            at = [i for i, slot in enumerate(slots) if isinstance(slot, TensorView)]
            runs.slots[call.number] = [slot for slot in slots if isinstance(slot, TensorView)]
            runs.positions[call.number] = at
            runs.kernels[call.number] = {LANES[role]: name for role, _, name in call.kernels}
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
        return [(last + 1, -1)] if last + 1 < len(self.first_run.tasks) else []

    def _refer(self, calls: list[Call], needed: list[Call] | None, runs: _Runs) -> None:
        """Run the reference, and record what it writes in the calls."""
        recorder = Recorder(kept=self._directory / "reference.bin")
        artifact, numerics = self.launch.artifact, self.launch.numerics
        plain, probed = References(artifact, numerics=numerics), References(artifact, recorder, numerics)
        chosen, last = set(calls), max(calls)[0]

        def until(call: Any) -> None:
            if call.number > last:
                raise Stop
            block = call.block or 0
            together = call.block is None and call.block_num > 1  # whose events are whose is not known
            if together or (call.number, block) not in chosen:
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
                reference = recorder.of(member)
                runs.events[call.number, block, LANES[role]] = reference.events, reference.dtypes

        with suppress(Stop):
            run(self.launch, until, {"only": [] if needed is None else flat(needed), "poison": self.poison}, {})

    def _read(self, stem: Path, runs: _Runs) -> Traced:
        number, block, member = position_of(stem)
        instructions = read_trace(stem.with_name(stem.name.removesuffix(".json"))).instructions
        reference = runs.events.get((number, block, member))
        expected = aligned(instructions, *reference) if reference else Expected()
        kernel = runs.kernels[number].get(member, "")
        names_of_task = self.first_run.names.get(number, [])
        names = [
            names_of_task[at] if at < len(names_of_task) else f"argument {position} of task {number}"
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
    """Return the calls as the flat list that the runtime takes."""
    return [number for call in calls for number in call]


def as_many(first_run: FirstRun, calls: Iterable[Call], least: int = 1) -> list[Call]:
    """The first of some calls that are traced at a time, `least` of them however large they are."""
    chosen: list[Call] = []
    left = _BYTES
    for call in calls:
        left -= _TIMES * first_run.bytes_of(call)
        if len(chosen) >= least and (left < 0 or len(chosen) == _CALLS):
            break
        chosen.append(call)
    return chosen


def position_of(stem: Path) -> tuple[int, int, int]:
    """Task, block and member of a trace, by its file's name."""
    _, task, block, member, _ = stem.name.split(".")
    return int(task), int(block), int(member)


def aligned(instructions: list[Instruction], events: list[Event], dtypes: list[str]) -> Expected:
    """Pair instructions with operations of the module, also an instruction that replaces another operation."""
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
