"""Places the tasks of a graph on a plane: levels from top to bottom, neighbours near each other, wide levels wrapped.

Done here and not in the page, so that a graph of thousands of tasks is drawn at once and the same everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

#: Sweeps of the barycenter rule; more change little.
_SWEEPS = 4

Point = tuple[float, float]


def place(levels: Mapping[int, int], pairs: Sequence[tuple[int, int]]) -> dict[int, Point]:
    """A position for every task: one unit between columns and between rows.

    `levels` are the tasks' levels, 0 at the top; `pairs` the edges between them.
    """
    rows: dict[int, list[int]] = {}
    for task, level in levels.items():
        rows.setdefault(level, []).append(task)
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for pred, succ in pairs:
        if pred in levels and succ in levels:
            above.setdefault(succ, []).append(pred)
            below.setdefault(pred, []).append(succ)
    _order(rows, above, below)
    width = _width(len(levels), max(map(len, rows.values()), default=1))
    points: dict[int, Point] = {}
    y = 0.0
    for level in sorted(rows):
        row = rows[level]
        for start in range(0, len(row), width):
            part = row[start : start + width]
            points.update({task: (column - (len(part) - 1) / 2, y) for column, task in enumerate(part)})
            y += 1
        y += 0.35 if len(row) > width else 0
    return points


def _order(rows: dict[int, list[int]], above: Mapping[int, list[int]], below: Mapping[int, list[int]]) -> None:
    """Sort each level by where its neighbours in the next level stand, from the top and from the bottom in turn."""
    for sweep in range(_SWEEPS):
        neighbours = above if sweep % 2 == 0 else below
        levels = sorted(rows) if sweep % 2 == 0 else sorted(rows, reverse=True)
        at = {task: _relative(column, len(row)) for row in rows.values() for column, task in enumerate(row)}
        for level in levels:
            row = rows[level]
            key = {task: _mean([at[other] for other in neighbours.get(task, ())], at[task]) for task in row}
            row.sort(key=lambda task: key[task])
            at.update({task: _relative(column, len(row)) for column, task in enumerate(row)})


def _relative(column: int, count: int) -> float:
    return (column + 0.5) / count


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _width(tasks: int, widest: int) -> int:
    """Columns before a level is wrapped: the picture stays about as wide as high."""
    return max(1, min(widest, max(12, math.ceil(1.4 * math.sqrt(tasks)))))
