"""Makes SIGTERM and SIGHUP end a run at once and in one line, even if its threads wait, for instance on a user's
pipe.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType

from SCons.Taskmaster.Job import Jobs

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_SET_UP, _RESET = Jobs._setup_sig_handler, Jobs._reset_sig_handler


def end_on_signals(silently: bool = False) -> None:
    """Make both signals end this process and its commands, until the build is done; an ignored signal stays ignored.

    SCons's own handlers would wait for running jobs. Nothing is saved: a killed run leaves nothing that counts. After
    the build, the resident process ends the rest of a command by SIGTERM, without a message. ``silently`` are processes
    ended that would print the same line.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    taken = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]

    owner = 0

    def end(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a process that was forked from it
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        for child in list(descendants(os.getpid())):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL if silently else number)
        with suppress(OSError):  # there is no reader
            os.write(2, f"pypto-build: ended by {signal.Signals(number).name}\n".encode())
        os._exit(128 + number)

    def set_up(jobs: Jobs) -> None:
        _SET_UP(jobs)
        take()

    def reset(jobs: Jobs) -> None:
        _RESET(jobs)
        end_without_a_word()

    def take() -> None:
        nonlocal owner
        owner = os.getpid()
        for number in taken:
            signal.signal(number, end)

    Jobs._setup_sig_handler, Jobs._reset_sig_handler = set_up, reset
    take()


def end_without_a_word() -> None:
    """Restore the default action of all signals that are not ignored."""
    for number in _SIGNALS:
        if threading.current_thread() is threading.main_thread() and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def descendants(process: int) -> Iterator[int]:
    """Yield the processes that a process started, each before its own children."""
    with suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):
                for child in map(int, (task / "children").read_text(encoding="ascii").split()):
                    yield child
                    yield from descendants(child)
