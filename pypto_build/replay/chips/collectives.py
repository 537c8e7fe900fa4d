"""Computes collectives as torch.distributed defines them, from the tensors of all ranks.

These functions do not depend on any implementation of a collective. RUNTIME=torch uses them for the programs of
collectives (see `reference.py`). So a kernel that agrees with its own module, although both are wrong, is noticed too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import torch

#: The names of chip programs of collectives: ``builtin.tensor.<collective>[__<option>...]``.
_PROGRAM = "builtin.tensor."
_REDUCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": torch.add,
    "max": torch.maximum,
    "min": torch.minimum,
    "prod": torch.mul,
}

Parts = Sequence[torch.Tensor]  # one for each rank, in rank order


def all_reduce(parts: Parts, op: str = "sum") -> list[torch.Tensor]:
    """Give every rank the combination of all parts, computed in the order of the ranks and in the parts' element
    type."""
    total = reduce(_REDUCTIONS[op], parts)
    return [total.clone() for _ in parts]


def reduce_scatter(parts: Parts, op: str = "sum") -> list[torch.Tensor]:
    """Combine parts [ranks, ...] row by row; rank r gets the combined r-th row [...]."""
    return [reduce(_REDUCTIONS[op], [part[rank] for part in parts]).clone() for rank in range(len(parts))]


def broadcast(parts: Parts, root: int = 0) -> list[torch.Tensor]:
    """Give every rank the part of `root`."""
    return [parts[root].clone() for _ in parts]


def all_gather(parts: Parts) -> list[torch.Tensor]:
    """Give every rank all parts, [n, ...] each, concatenated: [ranks * n, ...]."""
    return [torch.cat(list(parts)) for _ in parts]


def all_to_all(parts: Parts) -> list[torch.Tensor]:
    """Give rank r the r-th n rows of each part [ranks * n, ...], concatenated: [ranks * n, ...]."""
    ranks = len(parts)
    return [torch.cat([part.chunk(ranks)[rank] for part in parts]) for rank in range(ranks)]


def received(counts: Parts, most: int) -> list[torch.Tensor]:
    """Return how many rows each rank gets from each other in an all-to-all with variable counts. `counts` has the
    numbers that each rank sends to each other; each is limited to `most`."""
    clamped = torch.stack(list(counts)).clamp(max=most)
    return [clamped[:, rank].clone() for rank in range(len(counts))]


class Collective(NamedTuple):
    """The collective operation of a chip program: its name in torch.distributed, and its option."""

    name: str
    option: str = ""


#: For each name: the collective, and the number of windows that it takes, signals included.
_NAMES = {
    "barrier": ("barrier", 1),
    "allreduce": ("all_reduce", 2),
    "allreduce_ring": ("all_reduce", 2),
    "reduce_scatter": ("reduce_scatter", 2),
    "broadcast": ("broadcast", 2),
    "allgather": ("all_gather", 3),
    "all_to_all": ("all_to_all", 3),
    "all_to_all_v": ("all_to_all_v", 5),
}


def collective_of(program: str) -> Collective | None:
    """Return the collective that a chip program implements, by its name; None for another program."""
    if not program.startswith(_PROGRAM):
        return None
    name, *options = program.removeprefix(_PROGRAM).split("__")
    if name not in _NAMES:
        return None
    kind = _NAMES[name][0]
    if kind in ("all_reduce", "reduce_scatter"):
        return Collective(kind, options[0]) if options and options[0] in _REDUCTIONS else None
    if kind == "broadcast":
        root = options[0].removeprefix("root") if options else ""
        return Collective(kind, root) if root.isdecimal() else None
    return Collective(kind)


def signal_of(collective: Collective) -> int:
    """Return the index of the program's tensor that holds its signals."""
    return min(2, _count(collective) - 1)


def inputs_of(collective: Collective) -> tuple[int, ...]:
    """Return the indices of the program's input tensors. The contents of others may come from other ranks before it
    begins."""
    return (0, 3) if collective.name == "all_to_all_v" else (0,)


def require_tensors(collective: Collective, tensors: Sequence[object]) -> None:
    """Raise `ValueError` for a program that lacks the tensors of its collective."""
    if len(tensors) != _count(collective):
        raise ValueError(f"{collective.name} takes {_count(collective)} tensors, got {len(tensors)}")


def _count(collective: Collective) -> int:
    return next(count for name, count in _NAMES.values() if name == collective.name)


def results(collective: Collective, operands: Sequence[Parts], me: int) -> list[tuple[int, torch.Tensor]]:
    """Return the results of rank `me`, each with the index of the operand that it is written to. `operands` are the
    tensors of the program, each as a list over all ranks. The results share no memory with them."""
    name, option = collective
    data = operands[0]
    if name == "all_reduce":
        return [(0, all_reduce(data, option)[me])]
    if name == "broadcast":
        return [(0, broadcast(data, int(option))[me])]
    if name == "all_gather":
        return [(1, all_gather(data)[me])]
    if name == "all_to_all":
        return [(1, all_to_all(data)[me])]
    if name == "reduce_scatter":
        mine = data[me].clone()
        mine[me] = reduce_scatter([part[: len(data)] for part in data], option)[me]
        return [(0, mine)]
    if name == "all_to_all_v":
        counts = [part.reshape(-1)[: len(data)] for part in operands[3]]
        counts_received = received(counts, operands[1][me].shape[0] // len(data))[me]
        return [(1, all_to_all(data)[me]), (4, counts_received.reshape(operands[4][me].shape))]
    return []
