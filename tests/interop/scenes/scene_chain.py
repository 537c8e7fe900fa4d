"""Scene tests of one program in the forms that runners know: cases, levels, marks, a judge of its own."""

import ctypes

import pytest
import torch
from simpler.task_interface import ArgDirection as D
from simpler_setup import Scalar, SceneTestCase, TaskArgsBuilder, TensorArg, scene_test

KERNELS = "kernels"
SIM = ["a2a3sim", "a5sim"]


CHAIN = {
    "orchestration": {
        "source": f"{KERNELS}/chain.cpp",
        "function_name": "aicpu_orchestration_entry",
        "signature": [D.IN, D.OUT, D.INOUT],
    },
    "incores": [
        {"func_id": 3, "source": f"{KERNELS}/scaled.cpp", "core_type": "aiv", "signature": [D.IN, D.OUT, D.INOUT]},
        {"func_id": 7, "source": f"{KERNELS}/twice.cpp", "core_type": "aiv", "signature": [D.INOUT]},
    ],
}


@scene_test(level=2, runtime="tensormap_and_ringbuffer")
class TestChain(SceneTestCase):
    """y = 2 * factor * x and z = z + x."""

    RTOL = 1e-6
    CALLABLE = CHAIN
    CASES = [
        {"name": "small", "platforms": [*SIM, "a2a3"], "params": {"n": 16}},
        {"name": "matrix", "platforms": SIM, "params": {"n": 40, "wrong": True}, "manual": ["a2a3sim"]},
        {"name": "loose", "platforms": SIM, "params": {"n": 8}, "skip_golden": True, "manual": True},
        {"name": "chip", "platforms": ["a2a3"], "params": {"n": 16}},
    ]

    def generate_args(self, params):
        n = params["n"]
        return TaskArgsBuilder(
            TensorArg("x", torch.rand(n)),
            TensorArg("y", torch.zeros(n)),
            TensorArg("z", torch.ones(n)),
            Scalar("factor", ctypes.c_float(1.5)),
        )

    def compute_golden(self, args, params):
        args.y[:] = 2 * args.factor.value * args.x
        args.z += args.x
        if params.get("wrong"):
            args.z[3] += 1


@scene_test(level=2, runtime="tensormap_and_ringbuffer")
class TestJudged(SceneTestCase):
    """Judges its outputs itself, by their sum."""

    CALLABLE = CHAIN
    CASES = [{"name": "sum", "platforms": SIM}]
    FACTOR = 1.5

    def generate_args(self, params):
        return TestChain().generate_args({"n": 16})

    def compute_golden(self, args, params):
        args.y[0] = (3 * args.x).sum()

    def compare_outputs(self, test_args, golden_args, output_names, params):
        assert output_names == ["y", "z"]
        assert test_args.factor == self.FACTOR, f"factor is {test_args.factor}"
        assert torch.isclose(test_args.y.sum(), golden_args.y[0])


@pytest.mark.requires_hardware("a2a3")
@scene_test(level=2, runtime="host_build_graph")
class TestOnChip(SceneTestCase):
    """Needs hardware."""

    CASES = [{"name": "any", "platforms": SIM}]

    def test_worker(self, st_worker):
        st_worker.close()


if __name__ == "__main__":
    SceneTestCase.run_module(__name__)
