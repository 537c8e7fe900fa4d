"""The callback in place of kernels, runs in a given order, and the graph in the result."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.runtime.rig import Kernel, Rig, entry, f32_bits, floats, parameter

SCALE = Kernel(
    "scale",
    "for (uint64_t i = 0; i < count(args, 0); ++i) data(args, 1)[i] = data(args, 0)[i] * scalar<float>(args, 2);",
)
CHAIN = entry(
    """
    const ChipTensor& x = orch_args.tensor(0).ref();
    const ChipTensor& y = orch_args.tensor(1).ref();
    PTO2_SCOPE() {
        uint32_t shape[2] = {4, 8};
        TensorCreateInfo info(shape, 2);
        CoreTaskArgs p;
        p.add_input(x);
        p.add_output(info);
        p.add_scalar(2.0f);
        TaskOutputTensors outs = rt_submit_aiv_task(0, p);
        const ChipTensor& t = outs.get_ref(0);
        uint32_t half[2] = {2, 8}; uint32_t offset[2] = {2, 0};
        ChipTensor lower = t.view(half, offset), target = y.view(half, offset);
        CoreTaskArgs q;
        q.add_input(lower);
        q.add_output(target);
        q.add_scalar(3.0f);
        rt_submit_aiv_task(0, q);
    }
"""
)


def run_chain(rig: Rig, **options: Any) -> tuple[np.ndarray, Any]:
    x, y = floats(4, 8), np.zeros((4, 8), np.float32)
    runtime = rig.runtime([SCALE], CHAIN)
    result = runtime.run([parameter(x, "IN"), parameter(y, "INOUT")], [], options)
    return y, result


def test_callback_sees_every_task(rig: Rig) -> None:
    seen = []

    def on_task(call: Any) -> None:
        tensors, scalars = call.args[:2], call.args[2:]
        seen.append(
            (
                (call.number, call.task_id >> 32, call.block, call.block_num, call.kernels),
                [(t.shape, t.strides, t.start_offset, t.dtype, t.direction, t.allocated) for t in tensors],
                [(s.bits, s.dtype) for s in scalars],
            )
        )
        assert [t.address - t.buffer_address for t in tensors] == [4 * t.start_offset for t in tensors]
        call.run()

    y, result = run_chain(rig, on_task=on_task)
    np.testing.assert_array_equal(y[2:], floats(4, 8)[2:] * 6)
    assert result.tasks == 2
    assert seen == [
        (
            (0, 1, 0, 1, [("aiv0", 0, "scale")]),
            [((4, 8), (8, 1), 0, "float32", "IN", False), ((4, 8), (8, 1), 0, "float32", "OUT", True)],
            [(f32_bits(2.0), "float32")],
        ),
        (
            (1, 1, 0, 1, [("aiv0", 0, "scale")]),
            [((2, 8), (8, 1), 16, "float32", "IN", False), ((2, 8), (8, 1), 16, "float32", "OUT", False)],
            [(f32_bits(3.0), "float32")],
        ),
    ]


def test_callback_instead_of_kernels(rig: Rig) -> None:
    """The consumers read the callback's writes."""

    def array(argument: Any) -> np.ndarray:
        flat = np.frombuffer(argument.memory(), np.float32)[argument.start_offset :]
        return np.lib.stride_tricks.as_strided(flat, argument.shape, [4 * stride for stride in argument.strides])

    def on_task(call: Any) -> None:
        source, target, _ = call.args
        array(target)[...] = array(source) + 1

    y, result = run_chain(rig, on_task=on_task)
    np.testing.assert_array_equal(y[2:], floats(4, 8)[2:] + 2)
    assert result.tasks == 2


def test_exception_ends_the_run(rig: Rig) -> None:
    calls = []

    def on_task(call: Any) -> None:
        calls.append(call)
        raise KeyError("stop here")

    with pytest.raises(KeyError, match="stop here"):
        run_chain(rig, on_task=on_task)
    assert len(calls) == 1
    with pytest.raises(ValueError, match=r"the task is over: run\(\) belongs inside the callback"):
        calls[0].run()
    assert run_chain(rig)[1].tasks == 2


def test_fault_of_a_kernel_reaches_the_callback(rig: Rig) -> None:
    bad = Kernel("bad", 'core->fault(core, "no way", nullptr, 0);')
    caught = []

    def on_task(call: Any) -> None:
        try:
            call.run()
        except rig.module.RuntimeFault as fault:
            caught.append(fault.message)
            raise

    runtime = rig.runtime(
        [bad], entry("(void)orch_args; CoreTaskArgs p; rt_submit_aiv_task(0, p); rt_submit_aiv_task(0, p);")
    )
    with pytest.raises(rig.module.RuntimeFault) as raised:
        runtime.run([], [], {"on_task": on_task})
    assert caught == ["no way"]
    assert (raised.value.message, raised.value.task, raised.value.kernel) == ("no way", 0, "bad")


def test_callback_of_groups_and_blocks(rig: Rig) -> None:
    """One call a block with all members; blocks that start together make one call."""
    aic, aiv = Kernel("cube", "", "aic"), Kernel("vector", "")
    calls = []

    def on_task(call: Any) -> None:
        calls.append((call.number, call.block, call.block_num, [(role, name) for role, _, name in call.kernels]))
        call.run()

    runtime = rig.runtime(
        [aic, aiv],
        entry(
            """
        (void)orch_args;
        CoreTaskArgs p;
        rt_submit_task(MixedKernels{0, 1, 1}, p);
        p.launch_spec.set_block_num(2);
        rt_submit_aiv_task(1, p);
        p.launch_spec.set_require_sync_start(true);
        rt_submit_aiv_task(1, p);
        CoreTaskArgs none;
        rt_submit_dummy_task(none);
    """
        ),
    )
    runtime.run([], [], {"on_task": on_task})
    assert calls == [
        (0, 0, 1, [("aic", "cube"), ("aiv0", "vector"), ("aiv1", "vector")]),
        (1, 0, 2, [("aiv0", "vector")]),
        (1, 1, 2, [("aiv0", "vector")]),
        (2, None, 2, [("aiv0", "vector")]),
    ]


FORK = entry(
    """
    const ChipTensor& y = orch_args.tensor(0).ref();
    uint32_t one[1] = {1};
    for (uint32_t i = 0; i < 4; i += 1) {
        uint32_t offset[1] = {i};
        ChipTensor cell = y.view(one, offset);
        CoreTaskArgs p;
        p.add_inout(cell);
        rt_submit_aiv_task(0, p);
    }
    CoreTaskArgs p;
    p.add_inout(y);
    rt_submit_aiv_task(0, p);
    CoreTaskArgs none;
    rt_submit_dummy_task(none);
"""
)
NOTHING = Kernel("nothing", "")


def run_fork(rig: Rig, **options: Any) -> tuple[list[int], Any]:
    order: list[int] = []
    runtime = rig.runtime([NOTHING], FORK)
    y = np.zeros(4, np.float32)
    result = runtime.run([parameter(y, "INOUT")], [], {"on_task": lambda call: order.append(call.task_id), **options})
    return order, result


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [3, 1, 0, 2, 4], [2, 3, 5, 1, 0, 4]])
def test_given_order(rig: Rig, order: list[int]) -> None:
    """Tasks run exactly as listed; number 5 has no kernel, and takes its turn all the same."""
    assert run_fork(rig, order=order)[0] == [task for task in order if task != 5]


def test_tasks_left_out_of_the_order_run_last(rig: Rig) -> None:
    assert run_fork(rig, order=[2])[0] == [2, 0, 1, 3, 4]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([4, 0, 1], "option order cannot be followed: task id 4 of ring 0 waits for task id 0 of ring 0"),
        ([0, 77], "option order cannot be followed: task id 77 of ring 0 has not been submitted when it should run"),
        ([1, 1], "option order names a task twice"),
    ],
)
def test_order_that_cannot_be_followed(rig: Rig, order: list[int], message: str) -> None:
    with pytest.raises(rig.module.RuntimeFault) as caught:
        run_fork(rig, order=order)
    assert (caught.value.message, caught.value.kind) == (message, "usage_error")


def test_graph_in_the_result(rig: Rig, tmp_path: Any) -> None:
    _, result = run_fork(rig, graph=True, dep_gen=True, output_dir=str(tmp_path))
    assert result.graph == (tmp_path / "deps.json").read_text()
    graph = json.loads(result.graph)
    assert [task["task_id"] for task in graph["tasks"]] == ["0", "1", "2", "3", "4", "5"]
    assert {(edge["pred"], edge["succ"]) for edge in graph["edges"]} == {(str(i), "4") for i in range(4)}
    assert run_fork(rig)[1].graph == ""


def test_only_some_calls_are_made(rig: Rig) -> None:
    """The others count as over at once: the second task scales what the first one has not written."""
    y, result = run_chain(rig, only=[1, -1], poison=False)
    assert result.tasks == 2 and not (y[2:] == floats(4, 8)[2:] * 6).any()
    y, _ = run_chain(rig, only=[0, 0, 1, 0])
    np.testing.assert_array_equal(y[2:], floats(4, 8)[2:] * 6)
    y, _ = run_chain(rig, only=[0, 0, 1, 5])
    assert not y.any()


def test_the_callback_stands_in_for_some_calls(rig: Rig) -> None:
    seen: list[int] = []
    y, _ = run_chain(rig, on_task=lambda call: seen.append(call.number), hooked=[1, -1])
    assert seen == [1] and not y.any()
    seen.clear()

    def on_task(call: Any) -> None:
        seen.append(call.number)
        call.run()

    y, _ = run_chain(rig, on_task=on_task, hooked=[0, 0], only=[0, 0, 1, 0])
    assert seen == [0]
    np.testing.assert_array_equal(y[2:], floats(4, 8)[2:] * 6)
