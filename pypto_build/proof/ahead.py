"""Commands that are started before their turn, so that their start costs nobody any time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .action import Action


class Waiting(Protocol):
    """A process that has been started for a command and reads none of its inputs before it is told to.

    What it is made of may have been read earlier: ``since`` then, by the system's clock; 0: when it was started.
    """

    since: int

    def go(self) -> tuple[int, str] | None:
        """Let it work: its exit status and what it printed, if that was kept; None if it is gone."""

    def cancel(self) -> None:
        """End it: its command is not wanted after all."""


#: Starts a command in an environment and returns at once.
Start = Callable[[list[str], dict[str, str]], Waiting]


@dataclass(frozen=True)
class Ahead:
    """A process that waits to do ``action``, started at ``started`` by the system's clock, and its own directory."""

    action: Action
    work: Path
    started: int
    process: Waiting
