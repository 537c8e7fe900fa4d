"""What a file has and cannot run here, as pytest shows it: skipped with the reason."""

from __future__ import annotations

import os

import pytest


class Absent(pytest.Item):
    """What a file has and cannot run here: skipped."""

    def __init__(self, *, reason: str, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.reason = reason

    def runtest(self) -> None:
        """Say why it does not run."""
        pytest.skip(self.reason)

    def reportinfo(self) -> tuple[os.PathLike[str], int, str]:
        """Where the item is."""
        return self.path, 0, self.name
