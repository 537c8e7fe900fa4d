"""State of a walk at one point: the variables in scope, and the findings so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from tree_sitter import Node

from .findings import Findings
from .values import UNKNOWN, Function, Value, join


class WalkState(ABC):
    """The walk, as expressions and calls see it."""

    def __init__(self) -> None:
        self.found = Findings()
        self.scopes: list[dict[str, Value]] = [{}]

    @abstractmethod
    def value(self, node: Node | None) -> Value:
        """Return the possible values of an expression, and apply its side effects."""

    @abstractmethod
    def each(self, node: Node) -> None:
        """Walks the statements and expressions directly inside ``node``."""

    @abstractmethod
    def call(self, function: Function, arguments: list[Value], template: list[Value]) -> Value:
        """Walk the body of a helper function or lambda with these arguments, and return its result."""

    def lookup(self, name: str) -> Value:
        """Return the possible values of variable ``name``."""
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), UNKNOWN)

    def update(self, name: str, value: Value) -> None:
        """Assign to a variable. It may keep its old value: the walk takes all branches."""
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
