"""Recording of a run of the embedded runtime: the arguments of each chosen task, before and after it."""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from pypto_build.artifact import ArtifactError
from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.facts.tasks import Task, TaskArgument, TensorView, joined, task_of
from pypto_build.replay.faults import RunFault
from pypto_build.replay.reference.launch import Launch, Progress, in_child

# Choice of tasks: TASK=37, TASK=3-7, KERNEL=name or FROM=37.

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?\Z")
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True)
class Choice:
    """The selected tasks: ranges of task numbers (first, last), or a kernel by name or func_id. A last number of None
    means the end of the run.
    """

    ranges: tuple[tuple[int, int | None], ...] = ()
    kernel: str = ""
    label: str = ""

    @property
    def last(self) -> int | None:
        """The last task that can be chosen, or None if that is the last task of the run."""
        ends = [last for _, last in self.ranges]
        return None if not ends or None in ends else max(last for last in ends if last is not None)

    def takes(self, call: Any) -> bool:
        """Return whether the task of the runtime's call is chosen."""
        if self.kernel:
            return any(self.kernel in (name, str(func_id)) for _, func_id, name in call.kernels)
        return self.takes_number(call.number)

    def takes_number(self, number: int) -> bool:
        """Return whether a task number is in one of the ranges."""
        return any(first <= number and (last is None or number <= last) for first, last in self.ranges)


def choose(task: str, kernel: str, first: str) -> Choice:
    """Return the choice that the options make. Raises a usage error unless exactly one of them is set."""
    choices = {name: text for name, text in (("TASK", task), ("KERNEL", kernel), ("FROM", first)) if text}
    if len(choices) != 1:
        what = " and ".join(f"{name}={text}" for name, text in choices.items()) or "TASK="
        wrong = "name different tasks" if choices else "no task is named"
        raise ArtifactError(what, wrong, "give exactly one of TASK=37, TASK=3-7, KERNEL=name and FROM=37")
    if kernel:
        return Choice(kernel=kernel, label=_NOT_A_NAME.sub("_", kernel))
    if first:
        if not first.isdecimal() or len(first) > 9:
            raise ArtifactError(f"FROM={first}", "is not a task number", "tasks are counted from 0 in submission order")
        return Choice(((int(first), None),), label=f"from{first}")
    return Choice(tuple(_range(part.strip()) for part in task.split(",")), label=f"task{_NOT_A_NAME.sub('_', task)}")


def of_numbers(numbers: Sequence[int], label: str) -> Choice:
    """Return the choice of the tasks with these numbers."""
    return Choice(tuple((number, number) for number in numbers), label=label)


def _range(text: str) -> tuple[int, int]:
    match = _RANGE.match(text)
    if match is None:
        raise ArtifactError(f"TASK={text}", "is not a task number", "give 37, 3-7, or several with commas")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise ArtifactError(f"TASK={text}", "the range ends before it begins", f"write {last}-{first}")
    return first, last


#: The most bytes that recorded arguments may take, since they are kept in memory beside the run.
_MOST_BYTES = 4 << 30


@dataclass
class RecordedRun:
    """The chosen tasks in the order of submission, the number of all tasks, the text of deps.json, and notes."""

    tasks: list[Task] = field(default_factory=list)
    count: int = 0
    graph: str = ""
    notes: list[str] = field(default_factory=list)


def record(launch: Launch, choice: Choice, timeout_s: float, *, golden: str = "run") -> tuple[RecordedRun, str]:
    """Run the artifact and record the chosen tasks. Returns the recording and the source of their outputs.

    The source is "run" (kernels), "reference" (PyTorch) or empty. With ``golden`` "reference", PyTorch executes the
    chosen tasks in place of their kernels. It also does if the run ends in one of them. If PyTorch cannot execute them,
    they are not executed, and the source is empty. Raises ArtifactError if no task is chosen, and RunFault.
    """
    progress = Progress()
    try:
        recorded = _run(launch, choice, timeout_s, progress, golden, all_of_it=True)
    except RunFault as fault:
        if progress.task < 0:
            raise
        golden, recorded = _again(launch, choice, timeout_s, progress, golden, fault)
    if not recorded.tasks:
        raise _none(choice, recorded.count)
    return recorded, golden


def _again(
    launch: Launch, choice: Choice, timeout_s: float, progress: Progress, golden: str, fault: RunFault
) -> tuple[str, RecordedRun]:
    """Record again after a fault, without the tasks behind the chosen ones.

    If the fault was in a chosen task, their kernels are left out too.
    """
    inside = bool(choice.kernel) or choice.takes_number(progress.task)
    kinds = [golden] if not inside else [*(["reference"] if has_torch() else []), ""]
    for kind in kinds:
        try:
            recorded = _run(launch, choice, timeout_s, progress, kind, all_of_it=False)
        except (RunFault, ArtifactError):
            continue
        recorded.notes.append(f"the run itself ends early: {fault.error.message}")
        return kind, recorded
    raise fault


def _run(
    launch: Launch, choice: Choice, timeout_s: float, progress: Progress, golden: str, *, all_of_it: bool
) -> RecordedRun:
    def work() -> RecordedRun:
        recorder = _Recorder(choice, progress.set, launch.artifact, golden, None if all_of_it else choice.last)
        result = launch.run(recorder)
        recorder.recording.graph = result.graph
        return recorder.recording

    options = dict(launch.options)
    launch.options = {**options, "graph": True}
    try:
        return in_child(work, progress, timeout_s, loads="torch" if golden == "reference" else "numpy")
    finally:
        launch.options = options


def has_torch() -> bool:
    """Return whether PyTorch is installed, which the reference needs."""
    return importlib.util.find_spec("torch") is not None


def _none(choice: Choice, count: int) -> ArtifactError:
    if choice.kernel:
        hint = "name a kernel that the run submits; 'scons deps' lists the tasks"
        return ArtifactError(f"KERNEL={choice.kernel}", "no task runs it", hint)
    option = (
        f"FROM={choice.ranges[0][0]}" if choice.ranges[0][1] is None else f"TASK={choice.label.removeprefix('task')}"
    )
    numbers = f"tasks are numbered 0 to {count - 1}" if count > 1 else "there is task 0 alone" if count else "none ran"
    hint = f"{numbers}; a task cannot be extracted if it has no kernel or if its predicate skipped it"
    return ArtifactError(option, "no such task ran", hint)


class _Recorder:
    """The runtime's callback, which records the chosen tasks.

    ``golden`` chooses what executes them: their kernels ("run"), PyTorch ("reference") or nothing (""). Tasks after
    ``last`` are not executed.
    """

    def __init__(
        self, choice: Choice, started: Callable[[int], None], artifact: Path, golden: str, last: int | None
    ) -> None:
        self.choice, self.started, self.golden, self.last = choice, started, golden, last
        self.recording = RecordedRun()
        self._total = 0
        self._references: Any = None
        if golden == "reference":
            import torch

            from pypto_build.replay.reference.hook import References

            torch.set_num_threads(1)
            self._references = References(artifact)

    def __call__(self, call: Any) -> None:
        self.started(call.number)
        self.recording.count = max(self.recording.count, call.number + 1)
        if not self.choice.takes(call):
            if self.last is None or call.number <= self.last:
                call.run()
            return
        tasks = self.recording.tasks
        if not tasks or tasks[-1].number != call.number:
            tasks.append(self._task(call))
        self._execute(call)
        tasks[-1] = replace(tasks[-1], args=tuple(map(_after, tasks[-1].args)))

    def _execute(self, call: Any) -> None:
        if self._references is not None and self._references.execute(call):
            return
        if self._references is not None:
            names = joined(name for _, _, name in call.kernels)
            self.recording.notes.append(f"{names} has no .pto module: its outputs are those of the kernel itself")
        if self.golden:
            call.run()

    def _task(self, call: Any) -> Task:
        task = task_of(call)
        args = []
        for arg in task.args:
            before = b"" if arg.scalar else window_bytes(arg.view)
            self._total += 2 * len(before)
            if self._total > _MOST_BYTES:
                what = f"the arguments of the tasks before task {call.number} need more than {_MOST_BYTES >> 30} GB"
                raise ArtifactError("extract", what, "extract fewer tasks")
            args.append(replace(arg, before=before))
        return replace(task, args=tuple(args))


def _after(arg: TaskArgument) -> TaskArgument:
    after = b"" if arg.scalar else window_bytes(arg.view)
    return replace(arg, after=arg.before if after == arg.before else after)


def window_bytes(view: TensorView) -> bytes:
    """Return the current bytes of a view's window."""
    if view.empty:
        return b""
    first, last = view.window
    size = ITEMSIZE[view.dtype]
    return ctypes.string_at(view.buffer + first * size, (last - first) * size)


def elements(view: TensorView, array: np.ndarray[Any, Any], base: int) -> np.ndarray[Any, Any]:
    """Return a view's elements in an array that starts at element ``base`` of the allocation. They share memory."""
    if view.empty:
        return array[:0]
    item = array.itemsize
    return np.lib.stride_tricks.as_strided(
        array[view.offset - base :], view.shape, tuple(stride * item for stride in view.strides)
    )


def numbers(tasks: Sequence[Task]) -> str:
    """Return the numbers of tasks in the syntax of TASK=: `3`, `3-7` or `3,9`."""
    parts: list[list[int]] = []
    for task in tasks:
        if parts and parts[-1][1] == task.number - 1:
            parts[-1][1] = task.number
        else:
            parts.append([task.number, task.number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
