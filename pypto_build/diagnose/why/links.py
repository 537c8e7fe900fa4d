"""A chain: elements with what made them, as `why` tells and keeps it."""

from __future__ import annotations

import msgspec


class Summary(msgspec.Struct):
    """Elements of an operand that are combined into one: how many, the extremes, and the largest by magnitude."""

    count: int
    min: float
    max: float
    differ: int
    largest: list[tuple[tuple[int, int], float]]


class Link(msgspec.Struct):
    """One element on the way: where it lies, what made it, its value, and the value that the reference has there.

    ``parts``: the reference has another value here, and none of what it was made of differs. ``where`` is `'g' [3, 7]`
    or `UB 0x0 [3, 7]`; ``of`` are the links it was made of, ``combined`` says of how many where those are only some; of
    what is ``cut`` nobody looked what it was made of. ``instead`` is the operation that the module has in the
    instruction's place.
    """

    where: str
    value: float | None
    expected: float | None = None
    instruction: str = ""
    task: int = -1
    block: int = 0
    kernel: str = ""
    cpp: str = ""
    pto: str = ""
    note: str = ""
    differs: bool = False
    parts: bool = False
    cut: bool = False
    instead: str = ""
    combined: list[Summary] = []
    of: list[Link] = []
