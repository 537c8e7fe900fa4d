"""Tables of translations: functions register under an operation's family, or its family and function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .ops.spec import OpDef

F = TypeVar("F")


class Lowerings(dict[str, F]):
    """Functions of one translator by the keys of operations (`pto/ops`), the more particular key first."""

    def of(self, *keys: str) -> Callable[[F], F]:
        """Registers the decorated function under these keys."""

        def register(function: F) -> F:
            self.update(dict.fromkeys(keys, function))
            return function

        return register

    def find(self, definition: OpDef) -> F | None:
        """The function for an operation; None where there is none."""
        return next((self[key] for key in definition.keys if key in self), None)
