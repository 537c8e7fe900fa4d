"""What is known at one point of a walk: the variables that are in sight, and what was found so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from tree_sitter import Node

from .findings import Findings
from .values import UNKNOWN, Function, Value, join


class WalkState(ABC):
    """What expressions and calls see of the walk."""

    def __init__(self) -> None:
        self.found = Findings()
        self.scopes: list[dict[str, Value]] = [{}]

    @abstractmethod
    def value(self, node: Node | None) -> Value:
        """What is known of an expression; its side effects are taken note of."""

    @abstractmethod
    def each(self, node: Node) -> None:
        """Walks the statements and expressions directly inside ``node``."""

    @abstractmethod
    def call(self, function: Function, arguments: list[Value], template: list[Value]) -> Value:
        """What a helper function or lambda returns, having walked its body with these arguments."""

    def lookup(self, name: str) -> Value:
        """What is known of variable ``name``."""
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), UNKNOWN)

    def update(self, name: str, value: Value) -> None:
        """An assignment: the variable may be what it was or ``value``, since branches and loops are not told apart."""
        for scope in reversed(self.scopes):
            if name in scope:
                scope[name] = value if scope[name].is_blank else join([scope[name], value])
                return

    @contextmanager
    def scope(self) -> Iterator[None]:
        """An inner scope, for the length of a block."""
        self.scopes.append({})
        try:
            yield
        finally:
            self.scopes.pop()
