"""Signals, transfers and collectives between the memories of ranks."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import torch

from .memory import View, accumulate
from .pipes import _relax


def put(dst: View, src: View, *, add: bool = False) -> None:
    """Copy the elements of one view to another of the same extents, in global memory."""
    if add:
        accumulate(dst.elements(), src.elements())
    else:
        dst.elements().copy_(src.elements().clone())


def notify(signal: View, value: int, *, add: bool) -> None:
    """Set every signal of a view, or add to it; sums wrap."""
    cells = signal.elements()
    cells.copy_(cells + value if add else torch.full_like(cells, value))


def holds(signal: View, value: int, comparison: str) -> bool:
    """Return whether a comparison holds for every signal of a view."""
    return bool(getattr(torch, comparison)(signal.elements(), value).all())


@dataclass
class _WaitSignal:
    """A request of a member to wait until a comparison holds for every signal of a view."""

    signal: View
    value: int
    comparison: str

    def ready(self) -> bool:
        return holds(self.signal, self.value, self.comparison)

    def run(self) -> None:
        pass

    def what(self) -> str:
        values = self.signal.elements().flatten().tolist()
        return f"a signal {self.comparison} {self.value}, it is {', '.join(map(str, values))}"


def wait(signal: View, value: int, comparison: str) -> None:
    """Let other ranks run until a comparison holds. RuntimeError if no other rank runs."""
    request = _WaitSignal(signal, value, comparison)
    while not request.ready():
        if not _relax:
            raise RuntimeError(f"waits for {request.what()}; nobody else runs who could notify it")
        _relax[-1]()


def wait_g(signal: View, value: int, comparison: str) -> Generator[Any, Any, Any]:
    """Wait for signals in a member of a group, whose other members continue."""
    yield _WaitSignal(signal, value, comparison)


def _five(view: View) -> torch.Tensor:
    """Return a view's elements with five extents, as instructions see them: missing leading extents are 1."""
    elements = view.elements()
    return elements[(None,) * (5 - elements.dim())]


def _rows_of(whole: View, rank: int, part: torch.Tensor) -> torch.Tensor:
    """Return the rows of one rank in a view that stacks the rows of all ranks."""
    elements = _five(whole)
    start = rank * part.shape[3]
    return elements[: part.shape[0], : part.shape[1], : part.shape[2], start : start + part.shape[3], : part.shape[4]]


def broadcast(group: list[View], src: View) -> None:
    """Copy the elements to every member."""
    value = _five(src).clone()
    for member in group:
        _rows_of(member, 0, value).copy_(value)


def gather_ranks(group: list[View], dst: View) -> None:
    """Stack the rows of all members in the destination."""
    for rank, member in enumerate(group):
        value = _five(member)
        _rows_of(dst, rank, value).copy_(value)


def scatter_ranks(group: list[View], src: View) -> None:
    """Distribute rows to all members, the inverse of gathering."""
    for rank, member in enumerate(group):
        target = _five(member)
        target.copy_(_rows_of(src, rank, target))


def reduce_ranks(group: list[View], dst: View, op: str) -> None:
    """Compute the sum, maximum or minimum over the members in their order, each step in their element type."""
    result = _five(group[0]).clone()
    for member in group[1:]:
        value = _five(member)
        if op == "sum":
            result = result + value
        else:
            result = torch.where(value > result if op == "max" else value < result, value, result)
    _rows_of(dst, 0, result).copy_(result)
