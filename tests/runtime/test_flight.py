"""The flight recorder: what it holds of tasks, slots and signals; and waits for values on one chip."""

from __future__ import annotations

import mmap
import time
from typing import Any

import numpy as np
import pytest

from pypto_build.facts.layouts import FLIGHT_BYTES, FLIGHT_CORES, FLIGHT_RECORDS, FlightEvent
from pypto_build.replay.flight import Event, read_flight
from tests.runtime.rig import Kernel, Rig, entry

NOTHING = Kernel("nothing", "")
SUBMIT = "for (int64_t i = 0; i < from_u64<int64_t>(orch_args.scalar(0)); i += 1) { PTO2_SCOPE() { CoreTaskArgs p; rt_submit_aiv_task(0, p); } }"


def events(
    rig: Rig, kernels: list[Kernel], body: str, count: int = 1, buffer: Any = None, **options: Any
) -> list[Event]:
    """Return the events that a run leaves in the recorder."""
    buffer = mmap.mmap(-1, rig.module.flight_bytes(8)) if buffer is None else buffer
    runtime = rig.runtime(kernels, entry(body), threads=options.pop("threads", 2))
    runtime.run([], [count], {"flight": memoryview(buffer), **options})
    return read_flight(buffer[:])


def test_what_is_recorded_of_a_task(rig: Rig) -> None:
    assert rig.module.flight_bytes(FLIGHT_CORES) == FLIGHT_BYTES
    seen = events(rig, [NOTHING], SUBMIT, threads=1)
    assert [(event.what, event.core, event.task, event.kernel) for event in seen] == [
        (FlightEvent.RUN_BEGINS, -1, None, ""),
        (FlightEvent.SUBMITS, -1, 0, "nothing"),
        (FlightEvent.WAITS_FOR_END, -1, None, ""),
        (FlightEvent.KERNEL_BEGINS, 0, 0, "nothing"),
        (FlightEvent.KERNEL_RETURNS, 0, 0, "nothing"),
        (FlightEvent.RUN_ENDS, -1, None, ""),
    ]
    assert [event.ns for event in seen] == sorted(event.ns for event in seen)


def test_the_last_events_stay(rig: Rig) -> None:
    seen = events(rig, [NOTHING], SUBMIT, 3000, threads=1)
    of_core = [event for event in seen if event.core == 0]
    assert len(of_core) == FLIGHT_RECORDS
    assert [event.task for event in of_core[-2:]] == [2999, 2999]
    assert sum(event.what is FlightEvent.SUBMITS for event in seen) <= FLIGHT_RECORDS


def test_only_the_last_run_counts_and_more_cores_than_there_is_room_for_are_left_out(rig: Rig) -> None:
    buffer = mmap.mmap(-1, rig.module.flight_bytes(1))
    launch = "(void)orch_args; CoreTaskArgs p; p.launch_spec.set_block_num(6); p.launch_spec.set_require_sync_start(true); rt_submit_aiv_task(0, p);"
    events(rig, [NOTHING], launch, buffer=buffer)
    seen = events(rig, [NOTHING], SUBMIT, buffer=buffer, threads=1)
    assert {event.core for event in seen} == {-1, 0}
    assert [event.task for event in seen if event.what is FlightEvent.KERNEL_BEGINS] == [0]
    assert read_flight(bytes(16)) == read_flight(bytes(1 << 20)) == []


def test_slots_and_signals_are_changed_by_somebody(rig: Rig) -> None:
    head = '#include "pypto/core_context.h"\nstatic const PyptoPipeSpec kSpec = {0, 64, 2, 3, 0, 1};\n'
    push = "core->pipe_acquire(core, core->pipe_open(core, &kSpec), 1); core->pipe_commit(core, core->pipe_open(core, &kSpec), 1);"
    pop = "core->pipe_front(core, core->pipe_open(core, &kSpec), 1); core->pipe_release(core, core->pipe_open(core, &kSpec), 1);"
    kernels = [Kernel("cube", push, "aic", head), Kernel("vector", pop, "aiv", head)]
    seen = events(rig, kernels, "(void)orch_args; CoreTaskArgs p; rt_submit_task({0, 1, -1}, p);")
    lines = [str(event) for event in seen if event.what is FlightEvent.PASSES_SLOT]
    assert lines == [
        "task 0 cube pushes slot 0 of pipe 0 (cube to vector)",
        "task 0 vector frees slot 0 of pipe 0 (cube to vector)",
    ]


WAITER = Kernel("waiter", "core->signal_wait(core, tensor(args, 0).data_as<int32_t>(), 2, 3);")
NOTIFIER = Kernel(
    "notifier", "for (int i = 0; i < 2; ++i) core->signal_notify(core, tensor(args, 0).data_as<int32_t>(), 1, 0);"
)
PAIR = """const ChipTensor& s = orch_args.tensor(0).ref();
    CoreTaskArgs p; p.add_no_dep(s); rt_submit_aiv_task(0, p); CoreTaskArgs q; q.add_no_dep(s); rt_submit_aiv_task(1, q);"""


@pytest.mark.parametrize("threads", [1, 2])
def test_a_signal_of_one_chip_is_waited_for(rig: Rig, threads: int) -> None:
    """A waiting kernel leaves its thread to others."""
    signal = np.zeros(1, np.int32)
    runtime = rig.runtime([WAITER, NOTIFIER], entry(PAIR), threads=threads)
    runtime.run([(signal, (1,), "int32", "INOUT")], [])
    assert signal[0] == 2


def test_one_by_one_a_signal_of_a_later_task_never_comes(rig: Rig) -> None:
    signal = np.zeros(1, np.int32)
    runtime = rig.runtime([WAITER, NOTIFIER], entry(PAIR))
    begun = time.monotonic()
    with pytest.raises(rig.module.RuntimeFault) as caught:
        runtime.run([(signal, (1,), "int32", "INOUT")], [], {"serial": True})
    assert time.monotonic() - begun < 20
    assert caught.value.kind == "hang"
    assert "task 0 waiter waits for the signal at 0x" in caught.value.message
    assert ">= 2, it is 0 (no TNOTIFY ever changed it); nobody is left who could change it" in caught.value.message


def test_a_counter_that_another_task_raises_ends_a_wait(rig: Rig) -> None:
    defers = Kernel(
        "defers",
        "AsyncCtx context = get_async_ctx(args); save_expected_notification_counter(context, data(args, 0), 1);",
        prelude='#include <stdint.h>\n#include "pto_async_kernel_api.h"\n',
    )
    raises = Kernel("raises", "*static_cast<volatile int32_t *>(tensor(args, 0).data_as<int32_t>()) = 1;")
    counter = np.zeros(1, np.int32)
    runtime = rig.runtime([defers, raises], entry(PAIR), threads=1)
    runtime.run([(counter, (1,), "int32", "INOUT")], [])
    assert counter[0] == 1
