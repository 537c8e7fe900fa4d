"""The lines of a function while they are written, and the names that its values have in them."""

from __future__ import annotations

from collections.abc import Iterable

from .ir import IrFunction


class Statements:
    """Common parts of the texts of host drivers and orchestrations. ``names`` are expressions by value."""

    def __init__(self, function: IrFunction, taken: Iterable[str]) -> None:
        self.function = function
        self.values = function.values
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[str, str] = {}
        self.taken = set(taken)

    def add(self, line: str = "") -> None:
        """A line, as deep as the block it stands in."""
        self.lines.append("    " * self.depth + line if line else "")

    def give(self, value: str, name: str) -> str:
        """Let a value have a name, which nothing else gets."""
        self.taken.add(name)
        self.names[value] = name
        return name
