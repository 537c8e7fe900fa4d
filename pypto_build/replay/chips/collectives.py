"""What collectives compute, as torch.distributed defines them: functions of what all ranks have.

They say nothing of how a collective is done. RUNTIME=torch executes the programs of collectives by them (see
`reference.py`), so that a kernel which agrees with its own module and is wrong is found too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import torch

#: How chip programs of collectives are called: ``builtin.tensor.<collective>[__<option>...]``.
_PROGRAM = "builtin.tensor."
_REDUCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": torch.add,
    "max": torch.maximum,
    "min": torch.minimum,
    "prod": torch.mul,
}

Parts = Sequence[torch.Tensor]  # one a rank, in their order


def all_reduce(parts: Parts, op: str = "sum") -> list[torch.Tensor]:
    """Every rank gets all parts combined, which is done in the order of the ranks and in the parts' element type."""
    total = reduce(_REDUCTIONS[op], parts)
    return [total.clone() for _ in parts]


def reduce_scatter(parts: Parts, op: str = "sum") -> list[torch.Tensor]:
    """Of parts [ranks, ...] rank r gets the r-th rows combined: [...]."""
    return [reduce(_REDUCTIONS[op], [part[rank] for part in parts]).clone() for rank in range(len(parts))]


def broadcast(parts: Parts, root: int = 0) -> list[torch.Tensor]:
    """Every rank gets the part of `root`."""
    return [parts[root].clone() for _ in parts]


def all_gather(parts: Parts) -> list[torch.Tensor]:
    """Every rank gets all parts, [n, ...] each, one behind the other: [ranks * n, ...]."""
    return [torch.cat(list(parts)) for _ in parts]


def all_to_all(parts: Parts) -> list[torch.Tensor]:
    """Of parts [ranks * n, ...] rank r gets the r-th n rows of each, one behind the other: [ranks * n, ...]."""
    ranks = len(parts)
    return [torch.cat([part.chunk(ranks)[rank] for part in parts]) for rank in range(ranks)]


def received(counts: Parts, most: int) -> list[torch.Tensor]:
    """How many rows each rank gets of each other in an all-to-all with variable counts, `counts` being what each
    sends to whom, of at most `most`."""
    clamped = torch.stack(list(counts)).clamp(max=most)
    return [clamped[:, rank].clone() for rank in range(len(counts))]


class Collective(NamedTuple):
    """What a chip program does for all ranks together: its name in torch.distributed, and its option."""

    name: str
    option: str = ""


#: What programs are called after -> the collective, and the number of windows that it takes, signals included.
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
    """The collective that a chip program is, by its name; None for another program."""
    if not program.startswith(_PROGRAM):
        return None
    name, *options = program.removeprefix(_PROGRAM).split("__")
    if name not in _NAMES:
        return None
    known = _NAMES[name][0]
    if known in ("all_reduce", "reduce_scatter"):
        return Collective(known, options[0]) if options and options[0] in _REDUCTIONS else None
    if known == "broadcast":
        root = options[0].removeprefix("root") if options else ""
        return Collective(known, root) if root.isdecimal() else None
    return Collective(known)


def signal_of(collective: Collective) -> int:
    """Which of a program's tensors its signals are."""
    return min(2, _count(collective) - 1)


def inputs_of(collective: Collective) -> tuple[int, ...]:
    """Which of a program's tensors it works on. What others are to hold may come from other ranks before it begins."""
    return (0, 3) if collective.name == "all_to_all_v" else (0,)


def require_tensors(collective: Collective, tensors: Sequence[object]) -> None:
    """Raise `ValueError` for a program that has not the tensors of its collective."""
    if len(tensors) != _count(collective):
        raise ValueError(f"{collective.name} takes {_count(collective)} tensors, found {len(tensors)}")


def _count(collective: Collective) -> int:
    return next(count for name, count in _NAMES.values() if name == collective.name)


def results(collective: Collective, operands: Sequence[Parts], me: int) -> list[tuple[int, torch.Tensor]]:
    """What rank `me` gets, each with the number of the operand that it is written to. `operands` are the tensors of
    the program, each as all ranks have it; nothing that is returned shares memory with them."""
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
        found = received(counts, operands[1][me].shape[0] // len(data))[me]
        return [(1, all_to_all(data)[me]), (4, found.reshape(operands[4][me].shape))]
    return []
