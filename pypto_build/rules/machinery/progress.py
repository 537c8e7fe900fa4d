"""Record of a run's progress: the actions done, their reasons, and the actions that are running."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pypto_build import terminal
from pypto_build.proof import Action

#: An action, by the directory of its place and its name.
Key = tuple[Path, str]


class Progress:
    """The completed actions of a run. Methods may be called from several threads."""

    def __init__(self) -> None:
        self.renewed: list[Action] = []  # those whose outputs were built or restored
        self.failures: list[str] = []  # what failing commands printed, in order
        self.failed: list[tuple[Path, str]] = []  # the same with their lines, by the directories of their places
        self.hold = False  # what fails is shown at the end, not when it does
        self.unexplained: list[str] = []  # what to type to learn why a replay did not pass
        self.notes: set[str] = set()  # why results were not recorded, as far as it was said
        self.reported: set[tuple[Path, str]] = set()  # outputs and variants whose builds were told of
        self.reasons: dict[Key, str] = {}  # of what had to run
        self.failed_speculatively: dict[Key, str] = {}  # the same of what failed early, and is done once more
        self.how: dict[Key, Literal["built", "restored"]] = {}  # of ``renewed``
        self._expected: set[Key] = set()  # the binaries that this run may have to build
        self._running: dict[Key, str] = {}  # oldest first
        self._lock = threading.Lock()

    def expect(self, keys: Iterable[Key]) -> None:
        """Announce actions that will be built, or restored from the store."""
        with self._lock:
            self._expected.update(keys)

    def begin(self, directory: Path, action: Action, line: str, reason: str) -> None:
        """Record that an action begins to run."""
        with self._lock:
            self.reasons[directory, action.name] = reason
            self._running[directory, action.name] = line
        terminal.show_progress(self._doing)

    def end(self, directory: Path, action: Action) -> None:
        """Record that an action has ended."""
        with self._lock:
            self._running.pop((directory, action.name), None)

    def note(self, directory: Path, action: Action, how: Literal["built", "restored"]) -> None:
        """Record that the outputs of an action are new."""
        with self._lock:
            self.renewed.append(action)
            self.how[directory, action.name] = how

    def _doing(self) -> str:
        with self._lock:
            line = next(iter(self._running.values()), "")
            done = len(self._expected & self.how.keys())
            # Once they are all there, what is still being done is something else.
            built = f"({done} of {len(self._expected)} built)" if done < len(self._expected) else ""
            return f"{line}  {built}".strip()
