"""Order of the tasks of a run, from dependencies and from waits of the orchestration itself.

For every submission, the bits of one integer are the submissions that end before it starts. A query then reads one bit.
Positions count submissions, including allocations.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pypto_build.diagnose.hazards.record import HostWait, TaskRecord


class Order:
    """The order of one run. `ancestors[i]` has bit j set if j ends before i starts."""

    def __init__(self, tasks: Sequence[TaskRecord], host_waits: Sequence[HostWait]) -> None:
        self._tasks, self._host_waits = tasks, host_waits
        self._position = {task.id: index for index, task in enumerate(tasks)}
        self.ancestors: list[int] = []
        self.direct: list[list[tuple[int, str]]] = []
        consumers: dict[int, int] = {}
        everyone, seen = 0, 0
        for index, task in enumerate(tasks):
            for wait in host_waits[seen : task.host_waits]:
                everyone |= self._waited(wait, consumers)
            seen = max(seen, task.host_waits)
            direct = [(self._position[raw], source) for raw, source in task.waits if raw in self._position]
            before = everyone
            for producer, _ in direct:
                if producer < index:
                    before |= self.ancestors[producer] | 1 << producer
                    consumers[producer] = consumers.get(producer, 0) | 1 << index
            self.ancestors.append(before)
            self.direct.append(direct)
        self._forward()

    def _waited(self, wait: HostWait, consumers: dict[int, int]) -> int:
        """Return the submissions that have ended after a wait of the orchestration."""
        over = 0
        for raw in wait.tasks:
            position = self._position.get(raw)
            if position is not None and position < len(self.ancestors):  # later submissions have not ended
                over |= self.ancestors[position] | 1 << position
                over |= consumers.get(position, 0) if wait.readers else 0
        return over

    def _forward(self) -> None:
        """Add dependencies on tasks that are submitted later, which are rare, until nothing changes."""
        later = any(producer > index for index, direct in enumerate(self.direct) for producer, _ in direct)
        while later:
            later = False
            for index, direct in enumerate(self.direct):
                before = self.ancestors[index]
                for producer, _ in direct:
                    before |= self.ancestors[producer] | 1 << producer
                if before != self.ancestors[index]:
                    self.ancestors[index], later = before, True

    def without(self, producer: int, consumer: int) -> Order:
        """Return the order without the explicit dependency of one submission on another."""
        tasks = [
            msgspec.structs.replace(
                task, waits=[wait for wait in task.waits if wait != (self._tasks[producer].id, "explicit")]
            )
            if index == consumer
            else task
            for index, task in enumerate(self._tasks)
        ]
        return Order(tasks, self._host_waits)

    def before(self, first: int, second: int) -> bool:
        """Return whether `first` ends before `second` starts."""
        return bool(self.ancestors[second] >> first & 1)

    def ordered(self, one: int, other: int) -> bool:
        """Return whether one of the two ends before the other starts."""
        return one == other or self.before(one, other) or self.before(other, one)
