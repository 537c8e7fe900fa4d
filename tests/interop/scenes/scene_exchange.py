"""A scene test of two chips, which talk through their windows, and a host callable that sees what they leave."""

import ctypes

import torch
from simpler.task_interface import ArgDirection as D
from simpler.task_interface import CommBufferSpec, DataType, TaskArgs, TensorArgType
from simpler_setup import Scalar, SceneTestCase, TaskArgsBuilder, TensorArg, scene_test
from simpler_setup.scene_test import _rehosted_ref, _rehosted_ref_for


def seen(args):
    """A host callable that runs after both chips have finished."""
    print(f"seen {len(args)} tensors, {args[0].buffer.cast('B').cast('f')[1]}")


def exchange(orch, callables, task_args, config):
    """Both ranks at once, on halves of one tensor."""
    buffers = [CommBufferSpec(name="box", dtype="float32", count=80, nbytes=320)]
    with orch.allocate_domain(name="pair", workers=[0, 1], window_size=4096, buffers=buffers) as domain:
        assert domain[0].device_ctx and domain[1].domain_rank == 1
        both = []
        for rank in range(2):
            args = callables.keep(TaskArgs())
            args.add_tensor(_rehosted_ref_for(task_args, task_args.x[64 * rank : 64 * rank + 64]), TensorArgType.INPUT)
            args.add_tensor(_rehosted_ref(task_args, f"y{rank}"), TensorArgType.OUTPUT_EXISTING)
            args.add_tensor(domain[rank].buffers["box"].tensor((80,), DataType.FLOAT32), TensorArgType.INOUT)
            args.add_scalar(int(task_args.more.value))
            args.add_scalar(domain[rank].device_ctx)
            both.append(args)
        orch.submit_next_level_group(callables.trade, both, config, workers=[0, 1])
    after = TaskArgs()
    after.add_tensor(_rehosted_ref(task_args, "y0"), TensorArgType.INPUT)
    orch.submit_sub(callables.seen, after)


@scene_test(level=3, runtime="tensormap_and_ringbuffer")
class TestExchange(SceneTestCase):
    """Exchange data of two ranks: each ends with the sum of both halves."""

    CALLABLE = {
        "orchestration": exchange,
        "callables": [
            {
                "name": "trade",
                "orchestration": {
                    "source": "kernels/pair.cpp",
                    "function_name": "pair",
                    "signature": [D.IN, D.OUT, D.INOUT],
                },
                "incores": [
                    {
                        "func_id": 0,
                        "source": "kernels/exchange.cpp",
                        "core_type": "aiv",
                        "signature": [D.IN, D.OUT, D.INOUT],
                    },
                ],
            },
            {"name": "seen", "callable": seen},
        ],
    }
    CASES = [
        {"name": "two", "platforms": ["a2a3sim", "a5sim"], "config": {"device_count": 2}, "params": {"more": 3}},
        {"name": "wrong", "platforms": ["a2a3sim"], "config": {"device_count": 2}, "params": {"more": 3, "wrong": 1}},
    ]

    def generate_args(self, params):
        """One tensor for both ranks, and a sum for each."""
        tensors = [TensorArg("x", torch.arange(128, dtype=torch.float32))]
        tensors += [TensorArg(f"y{rank}", torch.zeros(64)) for rank in range(2)]
        return TaskArgsBuilder(*tensors, Scalar("more", ctypes.c_int64(params["more"])))

    def compute_golden(self, args, params):
        """The sum of both halves and a number."""
        for rank in range(2):
            getattr(args, f"y{rank}")[:] = args.x[:64] + args.x[64:] + params["more"] + params.get("wrong", 0) * rank
