"""What all items of ours have in common, and those that cannot run here."""

from __future__ import annotations

import os

import pytest


class Failed(Exception):
    """What did not pass; its text is what is shown."""


class Item(pytest.Item):
    """An item that fails with what is wrong, without a traceback of ours."""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """What is wrong."""
        return str(excinfo.value if isinstance(excinfo.value, Failed) else super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """Where the item is."""
        return self.path, 0, self.name


class Absent(Item):
    """What a file has and cannot run here: skipped."""

    def __init__(self, *, reason: str, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.reason = reason

    def runtest(self) -> None:
        """Say why it does not run."""
        pytest.skip(self.reason)
