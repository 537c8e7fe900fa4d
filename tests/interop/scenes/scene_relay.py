"""Scene tests of two chips whose dispatches wait for host callables, and for memory that is no argument."""

import ctypes

import torch
from simpler.task_interface import ArgDirection as D
from simpler.task_interface import DataType, TaskArgs, TensorArgType
from simpler_setup import Scalar, SceneTestCase, TaskArgsBuilder, TensorArg, scene_test
from simpler_setup.scene_test import _rehosted_ref


def add(args):
    """y += more, a tensor or a number."""
    y, *others = (torch.frombuffer(one.buffer, dtype=torch.float32, count=one.shapes[0]) for one in args)
    more = others[0] if others else args.scalar(0)
    assert y[0] < 1000, f"y[0] is {y[0]:g}"
    y += more


def relay(orch, callables, task_args, config):
    """y is doubled on each chip, with a host callable between and behind them."""

    def doubled(tensor, rank):
        args = TaskArgs()
        args.add_tensor(tensor, TensorArgType.INOUT)
        orch.submit_next_level(callables.double, args, config, worker=rank)

    y = _rehosted_ref(task_args, "y")
    doubled(y, 0)
    one = TaskArgs()
    one.add_tensor(y, TensorArgType.INOUT)
    one.add_scalar(task_args.step.value)
    orch.submit_sub(callables.add, one)
    doubled(y, 1)
    memory = orch.malloc(1, 64)
    orch.copy_to(memory, torch.full((16,), 1.5))
    part = memory.tensor((16,), DataType.FLOAT32)
    doubled(part, 1)
    both = TaskArgs()
    both.add_tensor(y, TensorArgType.INOUT)
    both.add_tensor(part, TensorArgType.INPUT)
    orch.submit_sub(callables.add, both)


RELAY = {
    "orchestration": relay,
    "callables": [
        {
            "name": "double",
            "orchestration": {"source": "kernels/doubled.cpp", "signature": [D.INOUT]},
            "incores": [{"func_id": 7, "source": "kernels/twice.cpp", "core_type": "aiv", "signature": [D.INOUT]}],
        },
        {"name": "add", "callable": add},
    ],
}


@scene_test(level=3, runtime="tensormap_and_ringbuffer")
class TestRelay(SceneTestCase):
    """y = 2 * (2 * y + step) + 3."""

    CALLABLE = RELAY
    CASES = [
        {"name": "small", "platforms": ["a2a3sim"], "config": {"device_count": 2}, "params": {"start": 1}},
        {"name": "large", "platforms": ["a2a3sim"], "config": {"device_count": 2}, "params": {"start": 1000}},
    ]

    def generate_args(self, params):
        y = torch.arange(16, dtype=torch.float32) + params["start"]
        return TaskArgsBuilder(TensorArg("y", y), Scalar("step", ctypes.c_int64(1)))

    def compute_golden(self, args, params):
        args.y[:] = 2 * (2 * args.y + args.step.value) + 3


@scene_test(level=3, runtime="tensormap_and_ringbuffer")
class TestRelayJudged(TestRelay):
    """Looks at its outputs itself."""

    CASES = [
        {"name": "first", "platforms": ["a2a3sim"], "config": {"device_count": 2}, "params": {"start": 1}},
        {"name": "second", "platforms": ["a2a3sim"], "config": {"device_count": 2}, "params": {"start": 2}},
    ]

    def compare_outputs(self, test_args, golden_args, output_names, params):
        assert output_names == ["y"] and test_args.step == 1
        assert test_args.y[0] == golden_args.y[0] == 9, f"y[0] is {test_args.y[0]:g}"


@scene_test(level=3, runtime="tensormap_and_ringbuffer")
class TestRelayByItself(TestRelay):
    """Drives its worker itself."""

    CASES = [{"name": "any", "platforms": ["a2a3sim"], "config": {"device_count": 2}, "params": {"start": 1}}]

    def test_run(self, st_platform, st_worker, request):
        st_worker.run_cases(self)
