"""Asks a run that is stopped at the time limit for the position of its threads, and the memory that spinning ones read.

The parent writes a command to the report buffer and sends SIGTERM; see `runtime/src/crash/samples.h`. A run that does
not answer in time gets no more commands.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Callable, Sequence

from pypto_build.facts import layouts
from pypto_build.facts.layouts import StopCommand

#: Offset of the command in a report; the answer follows it.
_COMMAND_OFFSET = layouts.Report.command.offset
_WORDS = struct.Struct("<II")
_MAGIC = b"PPREPORT"

#: The number of samples with closed memory; a polling thread is at the same address each time.
_LOOKS = 8
_CLOSED_S = 0.012
_ANSWER_S = 0.25
_ALL_S = 0.5


class Questions:
    """Sends commands to the runs whose reports begin at `starts`. `send` delivers a signal; `wait` reads output for
    some seconds."""

    def __init__(
        self, report: mmap.mmap, starts: Sequence[int], send: Callable[[], None], wait: Callable[[float], object]
    ) -> None:
        self._report, self._send, self._wait = report, send, wait
        self._starts = [start for start in starts if report[start : start + len(_MAGIC)] == _MAGIC]
        self._number = 0

    def ask(self) -> None:
        """Ask all runs for the positions of their threads and the memory that they read."""
        give_up = time.monotonic() + _ALL_S
        if not self._starts or not self._command(StopCommand.ASK):
            return
        for _ in range(_LOOKS):
            if time.monotonic() > give_up or not self._command(StopCommand.CLOSE):
                break
            self._wait(_CLOSED_S)
            if not self._command(StopCommand.OPEN):
                break

    def end(self) -> None:
        """Ask all runs to end."""
        self._command(StopCommand.END, answers=False)

    def _command(self, what: int, answers: bool = True) -> bool:
        """Give a command; return False if a run has not executed it in time."""
        self._number += 1
        word = self._number << 8 | what
        for start in self._starts:
            _WORDS.pack_into(self._report, start + _COMMAND_OFFSET, word, self._answered(start))
        self._send()
        give_up = time.monotonic() + _ANSWER_S
        while answers and any(self._answered(start) != word for start in self._starts):
            if time.monotonic() > give_up:
                return False
            self._wait(0.001)
        return True

    def _answered(self, start: int) -> int:
        return int(_WORDS.unpack_from(self._report, start + _COMMAND_OFFSET)[1])
