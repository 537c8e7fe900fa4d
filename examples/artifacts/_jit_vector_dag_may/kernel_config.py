# Kernel and Orchestration Configuration
# Example artifact of pypto-build, written in the form of PyPTO's PTO backend

from pathlib import Path

_ROOT_DIR = Path(__file__).parent

# Runtime configuration for tensormap_and_ringbuffer
# This runtime builds the task graph while it runs
RUNTIME_CONFIG = {
	"runtime": "tensormap_and_ringbuffer",
	"aicpu_thread_num": 4,
	"block_dim": 24,
}

ORCHESTRATION = {
	"source": str(_ROOT_DIR / "orchestration" / "vector_dag.cpp"),
	"function_name": "aicpu_orchestration_entry",
}

KERNELS = [
	{"func_id": 0, "name": "kernel_add", "source": str(_ROOT_DIR / "kernels" / "aiv" / "kernel_add.cpp"), "core_type": "aiv"},
	{"func_id": 1, "name": "kernel_shift", "source": str(_ROOT_DIR / "kernels" / "aiv" / "kernel_shift.cpp"), "core_type": "aiv"},
	{"func_id": 2, "name": "kernel_mul", "source": str(_ROOT_DIR / "kernels" / "aiv" / "kernel_mul.cpp"), "core_type": "aiv"},
]
