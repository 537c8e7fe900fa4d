"""Signals in kernels and orchestrations: what the report buffer holds after the process died."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pypto_build.facts.layouts import REPORT_BYTES
from pypto_build.runtime.report import Report, read_report, symbolise
from tests.runtime.rig import Kernel, Rig, entry, parameter

RUN = entry("""
    const ChipTensor& x = orch_args.tensor(0).ref();
    const ChipTensor& y = orch_args.tensor(1).ref();
    CoreTaskArgs p; p.add_input(x); p.add_output(y); p.add_scalar(5);
    rt_submit_aiv_task(0, p);
    CoreTaskArgs q; q.add_input(y); q.add_inout(y); q.add_scalar(6); q.launch_spec.set_block_num(2);
    rt_submit_aiv_task(1, q);
""")
FINE = Kernel("fine", "data(args, 1)[0] = data(args, 0)[0];")


def in_child(body: Callable[[memoryview], None]) -> tuple[int, Report | None]:
    """Runs `body` in a forked child with a report buffer; how it ended, and the report."""
    shared = mmap.mmap(-1, REPORT_BYTES)
    pid = os.fork()
    if pid == 0:
        status = 3
        try:
            body(memoryview(shared))
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    return status, read_report(shared[:])


def crash(rig: Rig, *kernels: Kernel, text: str = RUN, hole: bool = False, **options: Any) -> tuple[int, Report]:
    """`hole`: y lies 1 MB before x, with unmapped memory between them."""
    arena = mmap.mmap(-1, (1 << 16) + hole * (1 << 20))
    x = np.frombuffer(arena, np.float32, 1024, hole * (1 << 20))
    y = np.frombuffer(arena, np.float32, 1024, 0 if hole else 4096 * 4)

    def body(report: memoryview) -> None:
        if hole:
            nowhere = ctypes.c_void_p(y.ctypes.data + 4096), ctypes.c_size_t((1 << 20) - 4096)
            assert ctypes.CDLL(None).mprotect(*nowhere, 0) == 0
        runtime = rig.runtime(kernels, text)
        tensors = [(*parameter(x, "IN"), "x"), (*parameter(y, "OUT"), "y")]
        runtime.run(tensors, [], {"report": report, **options})

    status, report = in_child(body)
    assert report is not None
    return status, report


def test_report_size_is_what_the_module_needs(rig: Rig) -> None:
    assert rig.module.REPORT_BYTES <= REPORT_BYTES


def test_a_run_that_ends_well_leaves_an_empty_report(rig: Rig) -> None:
    status, report = crash(rig, FINE, FINE)
    assert (status, report.running, report.crash) == (0, (), None)


def test_an_unused_buffer_is_no_report() -> None:
    assert read_report(bytes(REPORT_BYTES)) is None
    with pytest.raises(ValueError, match="report buffer: 10 bytes; make it 131072"):
        read_report(bytes(10))


def test_a_null_pointer(rig: Rig) -> None:
    bad = Kernel("null", "if (get_block_idx(args) == 1) *reinterpret_cast<volatile int *>(args[2] - 6 + 8) = 1;")
    status, report = crash(rig, FINE, bad, serial=True)
    assert os.WTERMSIG(status) == signal.SIGSEGV
    crash_ = report.crash
    assert crash_ is not None
    assert (crash_.signal, crash_.task, crash_.kernel, crash_.func_id, crash_.block) == ("SIGSEGV", 1, "null", 1, 1)
    assert crash_.address == 8
    assert str(crash_.nearest) == "no tensor is near"
    assert crash_.summary() == "SIGSEGV in kernel null (task 1) at address 0x8, no tensor is near"
    assert [line.rsplit(" at ", 1)[0] for line in crash_.arguments] == [
        "arg 0 IN float32[1024]",
        "arg 1 INOUT float32[1024]",
        "arg 2 scalar 0x6",
    ]


def test_a_write_past_the_unified_buffer(rig: Rig) -> None:
    bad = Kernel("overflow", "core->memory[PYPTO_UB].base[core->memory[PYPTO_UB].size + 15] = 1;")
    _, report = crash(rig, bad, FINE)
    assert report.crash is not None
    assert str(report.crash.nearest) == "16 bytes past the end of UB (196608 bytes)"


def test_a_write_past_the_unified_buffer_is_none_to_the_stack_of_its_thread(rig: Rig) -> None:
    """The stack was mapped right below the buffer: the thread is started as soon as its core is there."""
    group = entry("""
        const ChipTensor& x = orch_args.tensor(0).ref();
        CoreTaskArgs p; p.add_input(x); rt_submit_task(MixedKernels{0, 1, -1}, p);
    """)
    bad = Kernel("overflow", "core->memory[PYPTO_UB].base[core->memory[PYPTO_UB].size + 15] = 1;")
    _, report = crash(rig, Kernel("cube", "", "aic"), bad, text=group)
    assert report.crash is not None
    assert (report.crash.kernel, str(report.crash.nearest)) == (
        "overflow",
        "16 bytes past the end of UB (196608 bytes)",
    )


def test_a_write_far_past_a_tensor(rig: Rig) -> None:
    """Between the tensors of this test lie mapped bytes, so it is the end of the arena that faults."""
    bad = Kernel("beyond", "for (int64_t i = 0;; i += 1024) data(args, 1)[i] = 0;")
    _, report = crash(rig, bad, FINE)
    assert report.crash is not None
    assert str(report.crash.nearest).endswith("bytes past the end of tensor y (4096 bytes)")


@pytest.mark.parametrize(
    ("at", "says"),
    [
        (1 << 15, "126977 bytes past the end of tensor y (4096 bytes)"),
        (239 << 10, "974849 bytes past the end of tensor y (4096 bytes)"),
        ((1 << 18) - 3, "12 bytes before tensor x (4096 bytes)"),
    ],
    ids=["near its own", "nearer another one", "just before another one"],
)
def test_between_two_tensors_the_lower_one_was_left(rig: Rig, at: int, says: str) -> None:
    """The nearer of the two depends on where they happen to be mapped."""
    bad = Kernel("astray", f"reinterpret_cast<volatile float *>(data(args, 1))[{at}] = 0;")
    _, report = crash(rig, bad, FINE, hole=True)
    assert report.crash is not None
    assert str(report.crash.nearest) == says


def test_the_stack_names_functions_and_lines(rig: Rig) -> None:
    prelude = """
    __attribute__((noinline)) static void inner(volatile int *p) { *p = 1; asm volatile(""); }
    __attribute__((noinline)) static void outer(volatile int *p) { inner(p); asm volatile(""); }
    """
    bad = Kernel("deep", "outer(nullptr);", prelude=prelude, flags=("-g", "-O0"))
    _, report = crash(rig, bad, FINE)
    assert report.crash is not None
    frames = symbolise(report.crash.frames)
    assert [frame.symbol.split("(")[0] for frame in frames[:3]] == ["inner", "outer", "kernel_entry"]
    assert ".cpp:2" in frames[0].line


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("SIGFPE", "volatile int zero = 0; volatile int seven = 7; seven = seven / zero;", signal.SIGFPE),
        ("SIGABRT", "__builtin_abort_();", signal.SIGABRT),
        ("SIGILL", "__builtin_trap();", signal.SIGILL),
    ],
)
def test_other_signals(rig: Rig, name: str, body: str, expected: signal.Signals) -> None:
    bad = Kernel("bad", body.replace("__builtin_abort_", "abort"), prelude="#include <stdlib.h>\n")
    status, report = crash(rig, bad, FINE)
    assert os.WTERMSIG(status) == expected
    assert report.crash is not None
    assert report.crash.summary() == f"{name} in kernel bad (task 0)"


def test_a_stack_overflow_is_reported(rig: Rig) -> None:
    prelude = "static int deep(volatile char *p, int n) { volatile char room[4096]; room[0] = *p; return n == 0 ? 0 : 1 + deep(room, n + 1); }\n"
    bad = Kernel("recursive", "char c = 0; data(args, 1)[0] = deep(&c, 1);", prelude=prelude, flags=("-O0",))
    status, report = crash(rig, bad, FINE)
    assert os.WTERMSIG(status) == signal.SIGSEGV
    assert report.crash is not None
    assert report.crash.kernel == "recursive"


def test_a_crash_in_the_orchestration(rig: Rig) -> None:
    text = entry("volatile int *p = reinterpret_cast<volatile int *>(orch_args.tensor_count() - 2); *p = 1;")
    status, report = crash(rig, FINE, text=text)
    assert os.WTERMSIG(status) == signal.SIGSEGV
    assert report.crash is not None
    assert report.crash.task is None
    assert report.crash.summary() == "SIGSEGV in the orchestration at address 0x0, no tensor is near"


def test_a_spinning_kernel_can_be_named_from_outside(rig: Rig) -> None:
    spin = Kernel("spin", "volatile int go = 1; while (go) {}")
    shared = mmap.mmap(-1, REPORT_BYTES)
    y = np.zeros(1024, np.float32)
    pid = os.fork()
    if pid == 0:
        try:
            runtime = rig.runtime([FINE, spin], RUN)
            runtime.run([parameter(y, "IN"), parameter(y, "OUT")], [], {"report": memoryview(shared)})
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(3)
    try:
        running: list[tuple[int, str, int]] = []
        while not any(kernel == "spin" for _, kernel, _ in running):
            report = read_report(shared[:])
            running = [(slot.task, slot.kernel, slot.func_id) for slot in report.running] if report else []
            ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            assert ended is None, (ended, report)  # it spins, for good
            time.sleep(0.01)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert (1, "spin", 1) in running
