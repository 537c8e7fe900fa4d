"""Stand-in for what level 3 has: an orchestrator that runs chip programs at once, in the order of their submission.

They are functions `NAME(device, tensors, scalars)` of the Python file of PYPTO_STANDIN_PROGRAM.
"""

import os
import pickle

from simpler.task_interface import ArgDirection, ChipCallable, DataType, TaskArgs
from simpler.worker import Worker, program


class Handle:
    """The handle of a registered callable."""

    def __init__(self, target):
        self.target = target


class ChipsWorker(Worker):
    def __init__(self, level, platform, runtime, device_ids, num_sub_workers):
        assert level == 3 and platform.endswith("sim")
        self.devices, self.processes, self.initialized = list(device_ids), num_sub_workers, False

    def register(self, target):
        assert not self.initialized
        if not isinstance(target, ChipCallable):
            target = pickle.loads(pickle.dumps(target))  # it goes to another process
            self.processes -= 1
            assert self.processes >= 0
        return Handle(target)

    def make_tensor_arg(self, tensor, shapes, dtype):
        assert tensor.is_shared(), "the processes share what is there before they start"
        return super().make_tensor_arg(tensor, shapes, dtype)

    def run(self, orchestration, args=None, config=None):
        assert self.initialized
        orchestration(Orchestrator(self), args, config)


class Mapped:
    """A tensor as a host callable gets it."""

    def __init__(self, tensor):
        self.dtype, self.shapes, self.strides = DataType.FLOAT32, tensor.shape, tensor.stride()
        self.buffer = memoryview(tensor.numpy()).cast("B")


class Orchestrator:
    def __init__(self, worker):
        self._worker = worker

    def submit_next_level(self, handle, args, config, *, worker):
        assert isinstance(handle.target, ChipCallable) and isinstance(args, TaskArgs) and worker >= 0
        assert all(isinstance(one, ArgDirection) for one in handle.target.signature)
        self._worker._write_diagnostics(config)
        run = getattr(program(os.environ["PYPTO_STANDIN_PROGRAM"]), handle.target.func_name)
        run(self._worker.devices[worker], args.tensors, args.scalars)

    def submit_sub(self, handle, args):
        handle.target([Mapped(tensor) for tensor in args.tensors])
