"""Deaths of the child in words."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from pypto_build.replay.faults import Death, Place, describe_death
from pypto_build.replay.verdict import ErrorInfo

KERNEL = Place("3", "add")


def _death(number: int = 0, *, exit_status: int = 0, **more: Any) -> Death:
    status = number if number else os.waitstatus_to_exitcode(0) | exit_status << 8
    return Death(status, more.get("peak", 1 << 20), more.get("limit", 1 << 30), more.get("tail", b""))


@pytest.mark.parametrize(
    ("death", "place", "kind", "message"),
    [
        (_death(signal.SIGSEGV), KERNEL, "crash", "kernel 'add' crashed: SIGSEGV (Segmentation fault)"),
        (_death(signal.SIGFPE), KERNEL, "crash", "kernel 'add' crashed: SIGFPE (Floating point exception)"),
        (_death(signal.SIGABRT), Place(), "crash", "the run crashed: SIGABRT (Aborted)"),
        (
            _death(signal.SIGABRT, tail=b"terminate called ... what():  std::bad_alloc\n"),
            KERNEL,
            "out_of_memory",
            "kernel 'add' reached the memory limit of 1024 MB (SIGABRT)",
        ),
        (
            _death(signal.SIGSEGV, peak=1000 << 20),
            Place(),
            "out_of_memory",
            "the run reached the memory limit of 1024 MB (SIGSEGV)",
        ),
        (
            _death(exit_status=7),
            KERNEL,
            "exit",
            "kernel 'add' ended the process with exit status 7 before everything was done",
        ),
    ],
)
def test_message(death: Death, place: Place, kind: str, message: str) -> None:
    error = describe_death(death, place)
    assert isinstance(error, ErrorInfo)
    assert (error.kind, error.message, error.task, error.kernel) == (kind, message, place.task, place.kernel)
    assert error.hint
