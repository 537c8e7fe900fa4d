import ctypes
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass
class RunResult:
    passed: bool
    work_dir: Path


def run_jit(fn, specs, runtime_cfg, golden_data=None, runtime_dir=None, save_data=False):
    from pypto.runtime import execute_compiled
    from pypto.runtime.runner import compile_program

    print(f"harness save_data={save_data} runtime_dir={runtime_dir} golden_data={golden_data}")
    work_dir = Path(runtime_dir) if runtime_dir else compile_program(fn)
    if save_data:
        (work_dir / "data" / "in").mkdir(parents=True)
        (work_dir / "data" / "out").mkdir()
    execute_compiled(work_dir, [torch.ones(4), ctypes.c_float(1), torch.zeros(4)], device_id=0, **runtime_cfg)
    return RunResult(True, work_dir)
