"""The shortcut for buffers of one piece finds the same conflicts as the general method."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np

from pypto_build.diagnose.hazards.conflicts import Frontier, Order, _in_one_piece
from pypto_build.facts.accesses import ATOMIC, READ, WRITE
from tests.rows import every

KINDS = (READ, WRITE, READ | WRITE, WRITE | ATOMIC)


def run(seed: int) -> tuple[Any, Order]:
    """Tasks with one to three accesses each, and some dependencies among them."""
    chance = random.Random(seed)
    tasks = [
        SimpleNamespace(
            id=number,
            host_waits=0,
            waits=[(other, "explicit") for other in range(number) if chance.random() < 0.25],
        )
        for number in range(12)
    ]
    task_of = [number for number in range(12) for _ in range(chance.randint(1, 3))]
    kinds = [chance.choice(KINDS) for _ in task_of]
    record = SimpleNamespace(kind_of=kinds, task_of=task_of, positions=list(range(12)))
    return record, Order(tasks, [])  # type: ignore[arg-type]


@every("seed", range(40))
def test_one_piece_as_many(seed: int) -> None:
    record, order = run(seed)
    pairs: set[tuple[int, int]] = set()
    chosen = list(range(len(record.task_of)))
    short = list(_in_one_piece(record, order, chosen, pairs))
    general = Frontier(record, order, 1)
    piece = np.zeros(1, np.int64)
    general_pairs = [(earlier, region) for region in chosen for earlier, _ in general.access(region, piece)]
    assert sorted(short) == sorted(general_pairs)
    assert pairs == general.pairs
