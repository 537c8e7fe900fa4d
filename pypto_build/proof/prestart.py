"""Processes that are started before their commands are needed, so that their start costs no time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .action import Action


class Waiting(Protocol):
    """A process started for a command before its turn. It reads none of the inputs before it gets the signal to go on.

    ``since`` is the time, by the system's clock, from which its code was read; 0 for the time of its start.
    """

    since: int

    def go(self) -> tuple[int, str] | None:
        """Let the process work; return its exit status and its kept output, or None if it has died."""

    def cancel(self) -> None:
        """End the process, because its command is not needed."""


#: Starts a command in an environment and returns at once.
Start = Callable[[list[str], dict[str, str]], Waiting]


@dataclass(frozen=True)
class WaitingAction:
    """A process that waits to do ``action``; it was ``started`` at that time by the system's clock, in its own
    directory.
    """

    action: Action
    work: Path
    started: int
    process: Waiting
