from pathlib import Path

_ROOT_DIR = Path(__file__).parent

RUNTIME_CONFIG = {"runtime": "tensormap_and_ringbuffer", "aicpu_thread_num": 0}

ORCHESTRATION = {
    "source": str(_ROOT_DIR / "orchestration" / "scale.cpp"),
    "function_name": "aicpu_orchestration_entry",
}

KERNELS = [
    {
        "func_id": 0,
        "name": "scale",
        "source": str(_ROOT_DIR / "kernels" / "aiv" / "scale.cpp"),
        "core_type": "aiv",
        "extra_include_dirs": [str(_ROOT_DIR.parent / "include")],
    },
]
