import ctypes
import json
import os
from dataclasses import dataclass
from pathlib import Path

PARAMS = [
    {"name": "x", "direction": "In", "shape": [4], "dtype": "fp32"},
    {"name": "a", "direction": "In", "shape": None, "dtype": "fp32"},
    {"name": "y", "direction": "Out", "shape": [4], "dtype": "fp32"},
]


@dataclass(frozen=True)
class _DfxOpts:
    enable_dump_args: int = 0
    enable_dep_gen: bool = False


@dataclass
class RunConfig:
    platform: str = "a2a3sim"
    enable_dump_args: int = 0
    enable_dep_gen: bool = False
    save_kernels: bool = False


def execute_compiled(work_dir, args, *, platform, device_id, dfx=_DfxOpts()):
    print(f"run {Path(work_dir).name} {platform} dump={dfx.enable_dump_args} deps={int(dfx.enable_dep_gen)}")
    x, a, y = args
    y.copy_(2 * x + a.value)


def compile_program(name):
    directory = Path(os.environ.get("PYPTO_PROG_BUILD_DIR", "build_output"), f"_jit_{name}_20260101_000000")
    (directory / "kernels" / "aiv").mkdir(parents=True)
    (directory / "kernels" / "aiv" / "k.cpp").touch()
    (directory / "compiled_meta.json").write_text(json.dumps({"schema": 1, "params": PARAMS}))
    return directory


def jit(name, x, a, y, config=None):
    config = config or RunConfig()
    directory = compile_program(name)
    dfx = _DfxOpts(config.enable_dump_args, config.enable_dep_gen)
    execute_compiled(directory, [x, ctypes.c_float(a), y], platform=config.platform, device_id=0, dfx=dfx)
    print(f"kept={int(config.save_kernels)}")
