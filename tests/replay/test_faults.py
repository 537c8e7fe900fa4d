"""Descriptions of the child's crashes and hangs."""

from __future__ import annotations

import signal
import struct
from dataclasses import replace
from typing import Any

import pytest

from pypto_build.facts.faults import Nearness
from pypto_build.facts.layouts import COMPLETE, REPORT_BYTES, REPORT_MAGIC, REPORT_VERSION
from pypto_build.facts.layouts import Report as Buffer
from pypto_build.replay.faults import Death, add_whereabouts, describe_death, describe_hang
from pypto_build.replay.lines import whereabouts
from pypto_build.runtime import report
from pypto_build.runtime.faults import FaultRecord, message_of
from pypto_build.runtime.report import Address, Crash, Frame, Report, Running, Sample

UNKNOWN = Address()
ADD = Running(3, 0, 0, "add", 100)
MUL = Running(4, 1, 0, "mul", 200, 2, "AIC")


def _crash(name: str, task: int | None = 3, kernel: str = "add", nearest: Address = UNKNOWN) -> Report:
    frames = (Frame("", 0, "__restore_rt"), Frame("", 0x10, "add"), Frame("", 0, "pypto::runtime::call()"))
    return Report((ADD,), Crash(name, 0x10, task, 0, 0, kernel, nearest, ("arg 0: x",), frames))


def _death(number: int = 0, *, exit_status: int = 0, **more: Any) -> Death:
    return Death(
        number or exit_status << 8, more.get("peak", 1 << 20), more.get("limit", 1 << 30), more.get("tail", b"")
    )


@pytest.mark.parametrize(
    ("death", "seen", "kind", "message", "culprit"),
    [
        (
            _death(signal.SIGSEGV),
            _crash("SIGSEGV", nearest=Address(Nearness.PAST, 4, 8, "x")),
            "crash",
            "kernel 'add' crashed: SIGSEGV (Segmentation fault) at address 0x10, 4 bytes past the end of x (8 bytes)",
            ("3", "add"),
        ),
        (
            _death(signal.SIGSEGV),
            _crash("SIGSEGV", nearest=Address(Nearness.MISSING_ARGUMENT, 2, 2)),
            "missing_argument",
            "kernel 'add' uses argument 2, but its task was given 2 arguments",
            ("3", "add"),
        ),
        (
            _death(signal.SIGFPE),
            _crash("SIGFPE"),
            "crash",
            "kernel 'add' crashed: SIGFPE (Floating point exception)",
            ("3", "add"),
        ),
        (
            _death(signal.SIGSEGV),
            _crash("SIGSEGV", None, "orchestration"),
            "crash",
            "the orchestration crashed: SIGSEGV (Segmentation fault) at address 0x10",
            (None, None),
        ),
        (_death(signal.SIGABRT), None, "crash", "the run crashed: SIGABRT (Aborted)", (None, None)),
        (
            _death(signal.SIGABRT, tail=b"terminate called ... what():  std::bad_alloc\n"),
            _crash("SIGABRT"),
            "out_of_memory",
            "kernel 'add' reached the memory limit of 1024 MB (SIGABRT)",
            ("3", "add"),
        ),
        (
            _death(signal.SIGSEGV, peak=1000 << 20),
            None,
            "out_of_memory",
            "the run reached the memory limit of 1024 MB (SIGSEGV)",
            (None, None),
        ),
        (
            _death(exit_status=7),
            Report((ADD,), None),
            "exit",
            "kernel 'add' ended the process with exit status 7 before everything was done",
            ("3", "add"),
        ),
    ],
)
def test_death(death: Death, seen: Report | None, kind: str, message: str, culprit: tuple[str, str]) -> None:
    error = describe_death(death, seen)
    assert (error.kind, error.message, (error.task, error.kernel)) == (kind, message, culprit)
    assert error.hint


def test_arguments_and_stack_are_details() -> None:
    error = describe_death(_death(signal.SIGSEGV), _crash("SIGSEGV"))
    assert error.detail == ["arg 0: x", "#0 add (+0x10)"]


def test_hang_names_what_runs_longest() -> None:
    error = describe_hang(1.5, Report((ADD, MUL), None, created=9, completed=5, open=3))
    assert error.message == (
        "kernel 'add' had not finished at the time limit of 1.5 s; sub_class=S1:running-stalled completed=5/9 "
        "running=2 ready=1 waiting=1 orch_done=1 stuck_task=3 stuck_core=0"
    )
    assert (error.kind, error.task, error.kernel) == ("hang", "3", "add")
    add_whereabouts(error, {"": Report((ADD, MUL), None)}, ())
    assert [line.partition(", since ")[0] for line in error.detail] == [
        "core 0 (AIV0) runs task 3 block 0, kernel 'add'",
        "core 2 (AIC) runs task 4 block 0, kernel 'mul'",
    ]


def test_who_waits_for_another_is_not_what_hangs() -> None:
    seen = Report((replace(ADD, waits=True), MUL), None)
    error = describe_hang(1.5, seen)
    add_whereabouts(error, {"rank 1 ": seen}, ())
    assert (error.task, error.kernel, error.detail[0].split(", ")[0]) == (
        "4",
        "mul",
        "rank 1 core 0 (AIV0) waits in task 3 block 0",
    )


@pytest.mark.parametrize(
    ("counts", "orchestrating", "name"),
    [
        ((3, 1, 1), False, "S3:ready-but-all-idle"),
        ((3, 1, 0), True, "S5:orchestrator-starvation"),
        ((3, 1, 0), False, "S4:dependency-deadlock"),
        ((3, 3, 0), False, "unknown:accounting/corruption"),
    ],
)
def test_classes_of_occupancy(counts: tuple[int, int, int], orchestrating: bool, name: str) -> None:
    assert Report((), None, orchestrating, *counts).occupancy().split()[0] == f"sub_class={name}"


def test_hang_of_nobody_knows_what() -> None:
    assert describe_hang(60, None).message == "the run had not finished at the time limit of 60 s"


def _fault_of(buffer: bytearray) -> FaultRecord | None:
    """Return the fault of a run that has begun and left this report buffer."""
    struct.pack_into("<QI", buffer, 0, REPORT_MAGIC, REPORT_VERSION)
    seen = report.read_report(memoryview(buffer))
    assert seen is not None
    return seen.fault


def test_the_fault_is_where_the_parent_looks_for_it() -> None:
    buffer = bytearray(REPORT_BYTES)
    assert _fault_of(buffer) is None
    text = b'{"kind":1,"fields":{"name":"b4"}}'
    struct.pack_into(f"<II{len(text)}s", buffer, Buffer.fault.offset, COMPLETE, len(text), text)
    fault = _fault_of(buffer)
    assert fault is not None
    assert message_of(fault) == 'platform "b4" is unknown'
    buffer[Buffer.fault.offset + 8] = 0
    assert _fault_of(buffer) is None


POLL = Sample(ADD, (), 8, 8, 0x4010, 7, Address(Nearness.INSIDE, 16, 128, "tensor x"))
POLLS = "it polls byte 16 of tensor x (128 bytes) at 0x4010, which holds 7 (int32)"
ALONE = ", and nothing else runs or is ready that could change it"


@pytest.mark.parametrize(
    ("seen", "touches"),
    [
        (Report((ADD,), None, open=1, samples=(POLL,)), POLLS + ALONE),
        (Report((ADD,), None, open=2, samples=(POLL,)), POLLS),
        (Report((ADD,), None, True, open=1, samples=(POLL,)), POLLS),
        (
            Report((ADD,), None, open=2, samples=(replace(POLL, nearest=UNKNOWN),)),
            "it polls 0x4010, which holds 7 (int32)",
        ),
        (Report((ADD,), None, open=1, samples=(replace(POLL, polls=1),)), ""),
        (Report((ADD,), None, open=1, samples=(replace(POLL, running=replace(ADD, waits=True)),)), ""),
        (Report((ADD,), None, open=1), ""),
    ],
)
def test_a_loop_that_polls_is_told_from_one_that_goes_on(seen: Report, touches: str) -> None:
    (item,) = whereabouts(seen, ())
    assert (item.touches, item.line) == (touches, "")
