"""Tables of translations: functions register under an operation's family, or its family and function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .ops.spec import OpDef

F = TypeVar("F")


class Lowerings(dict[str, F]):
    """Functions of one translator by the keys of operations (`pto/ops`); the more specific key is tried first."""

    def of(self, *keys: str) -> Callable[[F], F]:
        """Return a decorator that registers a function under these keys."""

        def register(function: F) -> F:
            self.update(dict.fromkeys(keys, function))
            return function

        return register

    def find(self, definition: OpDef) -> F | None:
        """Return the function for an operation; None if there is none."""
        return next((self[key] for key in definition.keys if key in self), None)
