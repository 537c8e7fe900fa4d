"""The base class of all our pytest items, and the item for tests that cannot run here."""

from __future__ import annotations

import os

import pytest


class Failed(Exception):
    """A test failure; its text is shown."""


class Item(pytest.Item):
    """An item that reports a failure without a traceback of ours."""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """Return the text of the failure."""
        return str(excinfo.value if isinstance(excinfo.value, Failed) else super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """Return the position of the item."""
        return self.path, 0, self.name


class Absent(Item):
    """An item that cannot run here: it is skipped."""

    def __init__(self, *, reason: str, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.reason = reason

    def runtest(self) -> None:
        """Skip with the reason."""
        pytest.skip(self.reason)
