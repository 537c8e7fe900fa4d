"""Choice of tasks: TASK=37, TASK=3-7, KERNEL=name or FROM=37."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pypto_build.artifact import ArtifactError

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?\Z")
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True)
class Choice:
    """Ranges of task numbers (first, last; None is the end of the run), or a kernel by name or func_id."""

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
    given = {name: text for name, text in (("TASK", task), ("KERNEL", kernel), ("FROM", first)) if text}
    if len(given) != 1:
        what = " and ".join(f"{name}={text}" for name, text in given.items()) or "TASK="
        wrong = "name different tasks" if given else "no task is named"
        raise ArtifactError(what, wrong, "give one of TASK=37, TASK=3-7, KERNEL=name and FROM=37")
    if kernel:
        return Choice(kernel=kernel, label=_NOT_A_NAME.sub("_", kernel))
    if first:
        if not first.isdecimal() or len(first) > 9:
            raise ArtifactError(f"FROM={first}", "is no task number", "tasks are counted from 0 in submission order")
        return Choice(((int(first), None),), label=f"from{first}")
    return Choice(tuple(_range(part.strip()) for part in task.split(",")), label=f"task{_NOT_A_NAME.sub('_', task)}")


def of_numbers(numbers: Sequence[int], label: str) -> Choice:
    """Return the choice of the tasks with these numbers."""
    return Choice(tuple((number, number) for number in numbers), label=label)


def _range(text: str) -> tuple[int, int]:
    match = _RANGE.match(text)
    if match is None:
        raise ArtifactError(f"TASK={text}", "is no task number", "give 37, 3-7, or several with commas")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise ArtifactError(f"TASK={text}", "ends before it begins", f"give {last}-{first}")
    return first, last
