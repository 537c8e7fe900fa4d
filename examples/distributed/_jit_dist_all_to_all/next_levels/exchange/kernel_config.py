# Kernel and Orchestration Configuration
# Example artifact of pypto-build, written in the form of PyPTO's PTO backend

from pathlib import Path

from simpler.task_interface import ArgDirection as _D

_ROOT_DIR = Path(__file__).parent

# Runtime configuration for tensormap_and_ringbuffer
# This runtime builds the task graph while it runs
RUNTIME_CONFIG = {
    "runtime": "tensormap_and_ringbuffer",
    "aicpu_thread_num": 0,
}

ORCHESTRATION = {
    "source": str(_ROOT_DIR / "orchestration" / "exchange.cpp"),
    "function_name": "aicpu_orchestration_entry",
    "signature": [_D.IN, _D.INOUT, _D.INOUT, _D.OUT],
}

KERNELS = [
    {
        "func_id": 0,
        "name": "put_parts",
        "source": str(_ROOT_DIR / "kernels" / "aiv" / "put_parts.cpp"),
        "core_type": "aiv",
        "signature": [_D.IN, _D.INOUT, _D.INOUT, _D.OUT],
    },
]
