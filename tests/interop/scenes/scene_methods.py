"""A scene test with test methods of its own: they compile the class's program, fill slots and run it."""

import pytest
import torch
from simpler.task_interface import ArgDirection as D
from simpler_setup import SceneTestCase, TaskArgsBuilder, TensorArg, scene_test
from simpler_setup.scene_test import _build_chip_task_args, _compare_outputs


@scene_test(level=2, runtime="tensormap_and_ringbuffer")
class TestMethods(SceneTestCase):
    """y = 2 * y."""

    CALLABLE = {
        "orchestration": {"source": "kernels/doubled.cpp", "signature": [D.INOUT]},
        "incores": [{"func_id": 7, "source": "kernels/twice.cpp", "core_type": "aiv", "signature": [D.INOUT]}],
    }
    CASES = [{"name": "any", "platforms": ["a2a3sim"]}, {"name": "asked", "platforms": ["a5sim"], "manual": True}]

    def generate_args(self, params):
        return TaskArgsBuilder(TensorArg("y", torch.rand(16)))

    def compute_golden(self, args, params):
        args.y *= 2

    def run_in(self, chip, slot):
        args = self.generate_args({})
        golden = args.clone()
        self.compute_golden(golden, {})
        chip_args, names = _build_chip_task_args(args, self.CALLABLE["orchestration"]["signature"])
        chip._run_slot(slot, chip_args, config=self._build_config({}))
        assert names == ["y"]
        _compare_outputs(args, golden, names, self.RTOL, self.ATOL)

    def test_slots(self, st_platform, st_worker):
        chip = st_worker._chip_worker
        program = self.build_callable(st_platform)
        chip._register_callable_at_slot(0, program)
        chip._register_callable_at_slot(1, program)
        with pytest.raises(RuntimeError, match="slot 1 is already in use"):
            chip._register_callable_at_slot(1, program)
        chip._unregister_slot(0)
        self.run_in(chip, 1)
        with pytest.raises(RuntimeError, match="slot 0 is empty"):
            self.run_in(chip, 0)

    def test_a_wrong_golden(self, st_platform, st_worker):
        st_worker._chip_worker._register_callable_at_slot(0, self.build_callable(st_platform))
        self.compute_golden = lambda args, params: None
        with pytest.raises(AssertionError, match="Golden mismatch on 'y'"):
            self.run_in(st_worker._chip_worker, 0)

    def test_what_only_simpler_counts(self, st_worker):
        assert st_worker.aicpu_dlopen_count == 0
