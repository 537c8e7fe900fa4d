"""The working directories of commands: their temporary files, and the logs of the files that they read."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path
from typing import ClassVar

WORK = ".work."


class WorkDirectories:
    """The working directories below ``directory``. Methods may be called from several threads."""

    _numbers: ClassVar = itertools.count()  # of all places

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._spare: list[Path] = []  # what commands have left

    def take(self) -> Path:
        """Return a directory for one run of a command, with an empty log.

        Its name is new each time, so that a process that an earlier command left running does not write to it.
        """
        work = self._directory / f"{WORK}{os.getpid()}.{next(self._numbers)}"
        try:
            self._spare.pop().rename(work)
        except (IndexError, OSError):
            work.mkdir(parents=True)
        (work / "log").touch()
        return work

    def leave(self, work: Path) -> None:
        """Empty a command's directory and keep it for the next command: some file systems take milliseconds to
        remove one.
        """
        try:
            with os.scandir(work) as entries:
                for entry in entries:
                    remove = shutil.rmtree if entry.is_dir(follow_symlinks=False) else os.unlink
                    remove(entry.path)
            self._spare.append(work)
        except OSError:
            shutil.rmtree(work, ignore_errors=True)

    def forget(self) -> None:
        """Forget the kept directories in a forked process: they belong to the parent."""
        self._spare.clear()

    def tidy(self) -> None:
        """Remove the working directories of all processes."""
        for leftover in self._directory.glob(f"{WORK}*"):
            shutil.rmtree(leftover, ignore_errors=True)

    def remove(self) -> None:
        """Remove the directories that are kept for later commands."""
        while self._spare:
            shutil.rmtree(self._spare.pop(), ignore_errors=True)
