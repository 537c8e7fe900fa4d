"""Stand-in for simpler.worker: runs the Python file of PYPTO_STANDIN_PROGRAM, `run(tensors, scalars)`, for the kernels.

PYPTO_STANDIN_FAULT is a message that a run fails with, PYPTO_STANDIN_CRASH a signal that it dies of, and with
PYPTO_STANDIN_HANG it waits.
"""

import importlib.util
import os
import signal
from pathlib import Path

from simpler import VINTAGE


class Worker:
    def __new__(cls, level, **more):
        if level == 2:
            return super().__new__(cls)
        from simpler.chips import ChipsWorker

        return super().__new__(ChipsWorker)

    def __init__(self, level, platform, runtime, device_id=0):
        assert level == 2
        if not platform.endswith("sim"):
            raise RuntimeError(f"device {device_id} is not there")
        self.platform, self.runtime, self.initialized = platform, runtime, False
        self.callables = []

    if VINTAGE >= "2026-05":

        def register(self, chip):
            self.callables.append(chip)
            return len(self.callables) - 1

    def init(self):
        self.initialized = True

    def make_tensor_arg(self, tensor, shapes, dtype):
        assert tuple(tensor.shape) == shapes
        return tensor

    def run(self, handle, args, config=None):
        assert self.initialized
        chip = self.callables[handle] if VINTAGE >= "2026-05" else handle
        binaries = [chip.binary, *(child.binary for _, child in chip.children)]
        assert all(binary[:4] == b"\x7fELF" for binary in binaries)
        self._write_diagnostics(config)
        if "PYPTO_STANDIN_FAULT" in os.environ:
            raise RuntimeError(os.environ["PYPTO_STANDIN_FAULT"])
        if "PYPTO_STANDIN_CRASH" in os.environ:
            os.kill(os.getpid(), int(os.environ["PYPTO_STANDIN_CRASH"]))
        if "PYPTO_STANDIN_HANG" in os.environ:
            signal.pause()
        program(os.environ["PYPTO_STANDIN_PROGRAM"]).run(args.tensors, args.scalars)

    @staticmethod
    def _write_diagnostics(config):
        for name, file in (("enable_dep_gen", "deps.json"), ("enable_pmu", "pmu.csv")):
            if getattr(config, name, 0):
                assert config.output_prefix and Path(config.output_prefix).is_dir()
                Path(config.output_prefix, file).write_text("{}")

    def close(self):
        self.initialized = False


def program(path):
    spec = importlib.util.spec_from_file_location("standin_program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
