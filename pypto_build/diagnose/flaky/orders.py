"""Legal orders of the tasks of a run: random ones, and the shortest way from one to another.

Two legal orders are joined by swaps of neighbours, each of which is legal: the two tasks swapped stand the other way
round in the second order, so nothing orders them.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Sequence


def random_order(tasks: Sequence[int], pairs: Iterable[tuple[int, int]], seed: int) -> list[int]:
    """`tasks` in a random order that keeps the first of each of `pairs` before the second; the same for one seed."""
    waits = dict.fromkeys(tasks, 0)
    then: dict[int, list[int]] = {}
    for first, second in set(pairs):
        if first in waits and second in waits:
            waits[second] += 1
            then.setdefault(first, []).append(second)
    chance = random.Random(seed)
    ready = [(chance.random(), task) for task in tasks if not waits[task]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, task = heapq.heappop(ready)
        order.append(task)
        for other in then.get(task, ()):
            waits[other] -= 1
            if not waits[other]:
                heapq.heappush(ready, (chance.random(), other))
    return order


def flipping_swap(
    good: Sequence[int], bad: Sequence[int], differs: Callable[[list[int]], bool]
) -> tuple[list[int], int] | None:
    """An order with the result of `good` and a position: swapping the tasks there and after gives another result.

    `differs(order)` runs an order. About log2(tasks) + log2(tasks) runs; None if the results cannot be pinned down.
    """
    steps = _between(0, len(bad), lambda count: differs(_moved(good, bad, count)))
    if steps is None:
        return None
    start = _moved(good, bad, steps)
    at = start.index(bad[steps])
    swaps = _between(0, at - steps, lambda count: differs(_shifted(start, at, count)))
    if swaps is None:
        return None
    return _shifted(start, at, swaps), at - swaps - 1


def _between(low: int, high: int, differs: Callable[[int], bool]) -> int | None:
    """A number whose result is that of `low` and whose successor's is not; `high` is known to differ."""
    while high - low > 1:
        middle = (low + high) // 2
        if differs(middle):
            high = middle
        else:
            low = middle
    return low if high > low else None


def _moved(good: Sequence[int], bad: Sequence[int], count: int) -> list[int]:
    """The first `count` tasks of `bad`, then the others as in `good`."""
    head = list(bad[:count])
    taken = set(head)
    return head + [task for task in good if task not in taken]


def _shifted(order: Sequence[int], at: int, count: int) -> list[int]:
    """The task at `at` moved forward by `count` neighbours."""
    rest = [*order[:at], *order[at + 1 :]]
    return [*rest[: at - count], order[at], *rest[at - count :]]
