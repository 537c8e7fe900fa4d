"""Calls of an orchestration besides submissions: element access, initial values, predicates, logs, core counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pypto_build.facts.run_options import LOG_LEVELS
from tests.runtime.rig import Kernel, Rig, entry, floats

ADD_ONE = Kernel("add1", "for (uint64_t i = 0; i < count(args, 0); ++i) data(args, 0)[i] += 1;")
COPY = Kernel("copy", "for (uint64_t i = 0; i < count(args, 1); ++i) data(args, 1)[i] = data(args, 0)[i];")
SLOW_ADD = Kernel("slow", "for (volatile int64_t n = 0; n < 3000000; n = n + 1) {} data(args, 0)[0] += 1;")
XY = "const ChipTensor& x = orch_args.tensor(0).ref(); const ChipTensor& y = orch_args.tensor(1).ref(); (void)x; (void)y;\n"


def run(rig: Rig, kernel: Kernel, body: str, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    x, y = floats(4, 8), np.zeros((4, 8), np.float32)
    rig.run([kernel], entry(XY + body), [(x, "INOUT"), (y, "INOUT")], **options)
    return x, y


def test_reading_waits_for_the_writer(rig: Rig) -> None:
    body = """
    CoreTaskArgs p; p.add_inout(x); rt_submit_aiv_task(0, p);
    uint32_t index[2] = {0, 0};
    float first = get_tensor_data<float>(x, 2, index);
    uint32_t to[2] = {1, 2};
    set_tensor_data<float>(y, 2, to, first);
    """
    for options in ({}, {"serial": True}, {"shuffle": True}):
        x, y = run(rig, SLOW_ADD, body, **options)
        assert (x[0, 0], y[1, 2]) == (1, 1)


def test_writing_waits_for_the_readers_of_the_writer(rig: Rig) -> None:
    reader = Kernel(
        "reader", "for (volatile int64_t n = 0; n < 3000000; n = n + 1) {} data(args, 1)[0] = data(args, 0)[0];"
    )
    body = """
    CoreTaskArgs w; w.add_inout(x); rt_submit_aiv_task(0, w);
    CoreTaskArgs p; p.add_input(x); p.add_inout(y); rt_submit_aiv_task(1, p);
    uint32_t index[2] = {0, 0};
    set_tensor_data(x, 2, index, 100.0f);
    """
    x, y = floats(4, 8), np.zeros((4, 8), np.float32)
    rig.run([ADD_ONE, reader], entry(XY + body), [(x, "INOUT"), (y, "INOUT")])
    assert (x[0, 0], y[0, 0]) == (100, 1)


def test_views_are_indexed_within_themselves(rig: Rig) -> None:
    body = """
    uint32_t shape[2] = {2, 4}; uint32_t offset[2] = {1, 4};
    ChipTensor v = x.view(shape, offset); ChipTensor t = v.transpose(0, 1);
    int64_t index[2] = {3, 1};
    uint32_t zero[2] = {0, 0};
    set_tensor_data(y, 2, zero, get_tensor_data<float>(t, 2, index));
    """
    x, y = run(rig, ADD_ONE, body)
    assert y[0, 0] == x[2, 7]


def test_initial_values(rig: Rig) -> None:
    body = """
    uint32_t shape[2] = {4, 8}; TensorCreateInfo ci(shape, 2, DataType::FLOAT32); ci.set_initial_value(2.5f);
    TaskOutputTensors outs = alloc_tensors(ci);
    const ChipTensor& t = outs.get_ref(0);
    CoreTaskArgs p; p.add_input(t); p.add_output(y); rt_submit_aiv_task(0, p);
    """
    assert (run(rig, COPY, body)[1] == 2.5).all()


def test_core_counts(rig: Rig) -> None:
    body = """
    uint32_t a[2] = {0, 0}; uint32_t b[2] = {0, 1};
    set_tensor_data(y, 2, a, static_cast<float>(rt_available_cluster_count()));
    set_tensor_data(y, 2, b, static_cast<float>(rt_available_aiv_count()));
    """
    assert run(rig, COPY, body)[1][0, :2].tolist() == [24, 48]
    assert run(rig, COPY, body, platform="a5sim")[1][0, :2].tolist() == [36, 72]


def test_log_levels(rig: Rig, capfd: pytest.CaptureFixture[str]) -> None:
    """The levels of 2026-08 and, between debug and timing, the ten before."""
    body = """
    LOG_DEBUG("debug"); LOG_INFO("info %d", 1); LOG_INFO_V3("v3"); LOG_INFO_V5("v5"); LOG_INFO_V9("v9");
    LOG_TIMING("timing"); LOG_WARN("warn"); LOG_ERROR("error"); LOG_ALWAYS("always"); LOG_INFO(current_runtime(), "rt %s", "x");
    """
    every = ["DEBUG debug", "INFO info 1", "INFO_V3 v3", "INFO v5", "INFO_V9 v9", "TIMING timing", "WARN warn",
             "ERROR error", "TIMING always", "INFO rt x"]  # fmt: skip
    left_out = {
        "debug": "",
        "v3": "debug",
        "v4": "debug v3",
        "info": "debug v3",
        "v6": "debug v3 info v5 rt",
        "v9": "debug v3 info v5 rt",
        "timing": "debug v3 info v5 v9 rt",
        "error": "debug v3 info v5 v9 rt timing always warn",
        "null": "debug v3 info v5 v9 rt timing always warn error",
    }
    for name, words in left_out.items():
        run(rig, COPY, body, log_level=LOG_LEVELS[name])
        printed = [line for line in capfd.readouterr().err.splitlines() if not line.startswith("[mono_ns=")]
        lines = [f"{line[1 : line.index(']')]} {line.rsplit('] ', 1)[1]}" for line in printed]
        assert lines == [line for line in every if line.split()[1] not in words.split()], name
        assert all("orchestration: [" in line for line in printed)


def _traced(text: str) -> list[str]:
    """The lines of a trace without their times; where each is told from one thread, in their order."""
    return [line.split("[INFO_V0] ")[1] for line in text.splitlines() if "[INFO_V0] " in line]


def test_trace(rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """At v0 each task is told when it is submitted, begins and is over, to stderr and to the log on disk."""
    body = entry(
        """
    const ChipTensor& y = orch_args.tensor(0).ref();
    CoreTaskArgs p; p.add_inout(y); rt_submit_aiv_task(0, p);
    CoreTaskArgs q; q.add_inout(y); q.launch_spec.set_block_num(2); rt_submit_aiv_task(0, q);
    """
    )
    kernel = Kernel("twice", "data(args, 0)[0] *= 2;")

    def told(level: str) -> str:
        rig.run([kernel], body, [(np.ones(4, np.float32), "INOUT")], log_level=LOG_LEVELS[level], serial=True)
        return capfd.readouterr().err

    expected = [
        "submit: task 0 twice, id 0:0",
        "dispatch: task 0 twice, id 0:0, AIV0, core 0",
        "complete: task 0 twice, id 0:0",
        "submit: task 1 twice, id 0:1, 2 blocks, after 0:0",
        "dispatch: task 1 twice, id 0:1, AIV0, block 0, core 0",
        "dispatch: task 1 twice, id 0:1, AIV0, block 1, core 0",
        "complete: task 1 twice, id 0:1",
    ]
    assert sorted(_traced(told("v0"))) == sorted(expected)
    assert _traced(told("v1")) == []

    monkeypatch.setenv("ASCEND_PROCESS_LOG_PATH", str(tmp_path))
    printed = told("debug")
    (log,) = tmp_path.glob("device-0/device-*.log")
    assert sorted(log.read_text().splitlines()) == sorted(printed.splitlines())
    assert sorted(_traced(printed)) == sorted(expected)
    told("warn")
    assert list(tmp_path.glob("device-0/*")) == [log]
    monkeypatch.setenv("ASCEND_PROCESS_LOG_PATH", str(tmp_path / "none"))
    assert "[WARN] ASCEND_PROCESS_LOG_PATH: " in told("v0")


def test_two_tensors_from_one_task_are_packed(rig: Rig) -> None:
    kernel = Kernel(
        "fill",
        "data(args, 0)[0] = 1; data(args, 1)[0] = 2; data(args, 2)[0] ="
        " static_cast<float>(tensor(args, 1).buffer.addr - tensor(args, 0).buffer.addr);",
    )
    body = """
    uint32_t shape[1] = {300}; TensorCreateInfo ci(shape, 1);
    CoreTaskArgs p; p.add_output(ci, ci); p.add_inout(y);
    TaskOutputTensors outs = rt_submit_aiv_task(0, p);
    uint32_t index[1] = {0}; uint32_t to[2] = {1, 1};
    set_tensor_data(y, 2, to, get_tensor_data<float>(outs.get_ref(0), 1, index) + get_tensor_data<float>(outs.get_ref(1), 1, index));
    if (outs.size() != 2 || outs.empty()) rt_report_fatal(9, "wrong size");
    """
    _, y = run(rig, kernel, body)
    assert (y[0, 0], y[1, 1]) == (2048, 3)


def test_never_submitted_dependency_is_a_hang(rig: Rig) -> None:
    body = """
    PTO2TaskId later = PTO2TaskId::make(0, 9);
    CoreTaskArgs p; p.add_inout(x); p.set_dependencies(&later, 1); rt_submit_aiv_task(0, p);
    CoreTaskArgs q; q.add_inout(x); rt_submit_aiv_task(0, q);
    """
    with pytest.raises(rig.module.RuntimeFault) as caught:
        run(rig, ADD_ONE, body)
    fault = caught.value
    assert (fault.kind, fault.code_name, fault.task, fault.kernel) == ("hang", "SCHEDULER_TIMEOUT", 0, "add1")
    assert fault.message == (
        "task 0 add1 waits for task id 9 of ring 0, which was never submitted, and the orchestration has returned; task 1 add1 waits for task 0 add1; "
        "nothing else can run, 2 tasks left; "
        "sub_class=S4:dependency-deadlock completed=0/2 running=0 ready=0 waiting=2 orch_done=1"
    )
    assert fault.hint == "a dependency names a task that was never submitted: check where the task id comes from"


def test_cycle_of_explicit_dependencies_is_a_hang(rig: Rig) -> None:
    body = """
    PTO2TaskId second = PTO2TaskId::make(0, 1);
    CoreTaskArgs p; p.set_dependencies(&second, 1); PTO2TaskId first = rt_submit_aiv_task(0, p).task_id();
    CoreTaskArgs q; q.set_dependencies(&first, 1); rt_submit_aiv_task(0, q);
    """
    with pytest.raises(rig.module.RuntimeFault) as caught:
        run(rig, ADD_ONE, body)
    assert caught.value.message == (
        "task 0 add1 waits for task 1 add1; task 1 add1 waits for task 0 add1; nothing else can run, 2 tasks left; "
        "sub_class=S4:dependency-deadlock completed=0/2 running=0 ready=0 waiting=2 orch_done=1"
    )
    assert caught.value.hint == ("explicit dependencies form a cycle: a task cannot wait for one submitted after it")


def test_reading_what_is_never_written_is_a_hang(rig: Rig) -> None:
    body = """
    PTO2TaskId later = PTO2TaskId::make(0, 9);
    CoreTaskArgs p; p.add_inout(x); p.set_dependencies(&later, 1); rt_submit_aiv_task(0, p);
    uint32_t index[2] = {0, 0};
    get_tensor_data<float>(x, 2, index);
    """
    with pytest.raises(rig.module.RuntimeFault) as caught:
        run(rig, ADD_ONE, body)
    assert (caught.value.kind, caught.value.code_name) == ("hang", "TENSOR_WAIT_TIMEOUT")
    assert caught.value.message.startswith(
        "get_tensor_data waits for a task that cannot finish: task 0 add1 waits for task id 9 of ring 0"
    )


def test_timing_slots(rig: Rig, capfd: pytest.CaptureFixture[str]) -> None:
    """Tasks of one slot make one span, from the first taken to the last over, at the log level that has timings."""
    body = entry(
        """
    (void)orch_args;
    for (int slot : {3, 3, 15, -1}) {
        CoreTaskArgs p;
        if (slot >= 0) p.set_task_timing_slot(slot);
        rt_submit_aiv_task(0, p);
    }
    """
    )
    rig.run([Kernel("nothing", "")], body, [], log_level=25)
    lines = [line for line in capfd.readouterr().err.splitlines() if "task_slot" in line]
    assert [line.partition("device_wall.")[2].split()[0] for line in lines] == ["task_slot_3", "task_slot_15"]
    assert all("[STRACE] v=1 " in line and line.endswith(" clk=dev") for line in lines)
    rig.run([Kernel("nothing", "")], body, [], log_level=30)
    assert capfd.readouterr().err == ""


def test_early_resolve_is_recorded_and_changes_nothing(rig: Rig, tmp_path: Path) -> None:
    body = entry(
        """
    const ChipTensor& y = orch_args.tensor(0).ref();
    CoreTaskArgs p; p.add_inout(y); p.set_allow_early_resolve(true); rt_submit_aiv_task(0, p);
    CoreTaskArgs q; q.add_inout(y); rt_submit_aiv_task(0, q);
    """
    )
    y = np.zeros(4, np.float32)
    kernel = Kernel("twice", "for (int i = 0; i < 4; ++i) data(args, 0)[i] = data(args, 0)[i] * 2 + 1;")
    outcome = rig.run([kernel], body, [(y, "INOUT")], directory=tmp_path)
    assert y.tolist() == [3.0] * 4
    assert [task["early_dispatch"] for task in outcome.graph["tasks"]] == [True, False]
