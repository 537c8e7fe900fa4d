"""Legal orders of the tasks of a run: random orders, and steps from one order to another.

Swaps of neighbours lead from one legal order to another. Each swap is legal: the second order has the two tasks the
other way round, so no dependency orders them.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Sequence


def random_order(tasks: Sequence[int], pairs: Iterable[tuple[int, int]], seed: int) -> list[int]:
    """Return `tasks` in a random order that keeps the first task of each pair before the second.

    The same seed gives the same order.
    """
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
    """Return an order with the result of `good`, and a position where a swap with the next task changes the result.

    `differs(order)` runs an order. The search takes about 2 * log2(tasks) runs. Returns None if the results do not
    lead to a single swap.
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
    """Return a number with the result of `low` whose successor differs. `high` must differ from `low`."""
    while high - low > 1:
        middle = (low + high) // 2
        if differs(middle):
            high = middle
        else:
            low = middle
    return low if high > low else None


def _moved(good: Sequence[int], bad: Sequence[int], count: int) -> list[int]:
    """Return the first `count` tasks of `bad`, then the others in the order of `good`."""
    head = list(bad[:count])
    taken = set(head)
    return head + [task for task in good if task not in taken]


def _shifted(order: Sequence[int], at: int, count: int) -> list[int]:
    """Return the order with the task at `at` moved forward by `count` neighbours."""
    rest = [*order[:at], *order[at + 1 :]]
    return [*rest[: at - count], order[at], *rest[at - count :]]
