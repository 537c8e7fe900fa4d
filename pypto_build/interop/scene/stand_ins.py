"""Stand-ins under the names of simpler's packages, for a process that executes scene tests without simpler.

Modules and names without a stand-in are placeholders: importing works, using raises an error.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from pypto_build.artifact import ArgDirection
from pypto_build.artifact.scenes import CHIP_LEVEL
from pypto_build.interop.scene import arguments, case, queues, regions, worker
from pypto_build.interop.scene.arguments import TaskArgsBuilder, tensor_of
from pypto_build.interop.scene.faults import NeedsSimpler
from pypto_build.interop.scene.node import NodeWorker
from pypto_build.interop.scene.recorder import TaskArgs, task_args_of
from pypto_build.replay.chips.dispatches import TensorArgType
from pypto_build.replay.chips.driver import CallConfig, CommBufferSpec, DataType, modules_of

#: simpler's packages.
_PACKAGES = ("simpler", "simpler_setup", "_task_interface")


class _Absent(type):
    """A class that raises `NeedsSimpler` when it is used."""

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise NeedsSimpler(f"{cls.__module__}.{cls.__name__}")

    def __index__(cls) -> NoReturn:
        raise NeedsSimpler(f"{cls.__module__}.{cls.__name__}")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __call__
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __lshift__ = __call__  # for constants

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NeedsSimpler(f"{cls.__module__}.{cls.__name__}.{name}")


def _fill(module: ModuleType) -> None:
    """Make every name that a module lacks a placeholder."""

    def absent(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(name, (), {"__module__": module.__name__})

    module.__getattr__ = absent  # type: ignore[method-assign]


class _AbsentFinder(MetaPathFinder, Loader):
    """Finds every module of simpler's packages that no other finder finds."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module without content."""
        return ModuleSpec(fullname, self, is_package=True) if fullname.partition(".")[0] in _PACKAGES else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return None, for the default module object."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Make every name of the module a placeholder."""
        _fill(module)


class Worker:
    """The worker of a level: of one chip, or of several."""

    def __new__(cls, level: int = CHIP_LEVEL, **options: Any) -> Any:
        """Return a worker for one chip (the default level), or for several."""
        return (worker.OneChipWorker if level == CHIP_LEVEL else NodeWorker)(level=level, **options)


def scalar_to_uint64(value: Any) -> int:
    """Return the 64 bits that a scalar is passed as: a float as float32, a ctypes value by its own bits."""
    if isinstance(value, (ctypes.c_float, float)):
        number = value.value if isinstance(value, ctypes.c_float) else value
        return int(struct.unpack("<I", struct.pack("<f", number))[0])
    if isinstance(value, ctypes.c_double):
        return int(struct.unpack("<Q", struct.pack("<d", value.value))[0])
    return int(getattr(value, "value", value)) & (1 << 64) - 1


def create_worker_chip_queue(orch: Any, **sizes: int) -> queues.WorkerChipQueue:
    """Return a queue of an orchestration."""
    queue: queues.WorkerChipQueue = orch.create_worker_chip_queue(**sizes)
    return queue


def ensure_pto_isa_root(*_: object, **__: object) -> str:
    """Return the empty path, in place of the directory of headers, which are not needed here."""
    return ""


def configure_logging(level: str = "timing") -> None:
    """Do nothing: the log level is an option of the run."""


def _outputs_dir() -> Path:
    """Return the directory that has a directory of records for each case that ran."""
    return Path(os.environ["PYPTO_SCENE_OUTPUTS"])


def _sanitize_for_filename(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)


def _rehosted_ref_for(test_args: TaskArgsBuilder, tensor: Any) -> Any:
    """Return a tensor of the case's arguments as an argument of a dispatch."""
    return tensor_of(tensor)


def _rehosted_ref(test_args: TaskArgsBuilder, name: str, worker: Any = None) -> Any:
    """Return the tensor with this name as an argument of a dispatch."""
    return tensor_of(getattr(test_args, name))


def _build_task_args(test_args: TaskArgsBuilder, orch_signature: Any, worker: Any = None) -> Any:
    """Return all arguments of the case for one dispatch, and the names of the outputs."""
    return task_args_of(test_args, orch_signature)


def _names(module: ModuleType, *starts: str) -> dict[str, Any]:
    """Return what a module of ours defines under simpler's names, which begin with one of `starts`."""
    return {name: value for name, value in vars(module).items() if name.startswith(starts)}


_SCENE_TEST: Mapping[str, Any] = {
    **_names(case, "Scene", "scene_", "CallableNamespace"),
    **_names(arguments, "Scalar", "TaskArgsBuilder", "TensorArg"),
    "Tensor": arguments.TensorArg,  # its name until August 2026
}
#: Contents by module; those of `simpler_setup.scene_test` are in its package, too.
_MODULES: Mapping[str, Mapping[str, Any]] = {
    "simpler": {},
    "simpler.task_interface": {
        one.__name__: one
        for one in (
            *(ArgDirection, CallConfig, CommBufferSpec, DataType, TaskArgs, TensorArgType),
            *(worker.ChipCallable, worker.CoreCallable, scalar_to_uint64),
        )
    },
    "simpler.worker": {"Worker": Worker},
    "simpler.worker_chip_message_queue": {
        **_names(queues, "WORKER_CHIP_QUEUE_", "WorkerChipQueue", "make_worker_chip_queue_", "worker_chip_queue_"),
        "create_worker_chip_queue": create_worker_chip_queue,
    },
    "simpler.worker_chip_orch_comm": _names(
        regions, "WORKER_CHIP_ORCH_COMM_", "WorkerChipOrch", "NotifyOp", "SignalTestResult", "WaitCmp"
    ),
    "simpler_setup": _SCENE_TEST,
    "simpler_setup.kernel_compiler": {"KernelCompiler": worker.KernelCompiler},
    "simpler_setup.log_config": {"configure_logging": configure_logging},
    "simpler_setup.pto_isa": {"ensure_pto_isa_root": ensure_pto_isa_root},
    "simpler_setup.scene_test": {
        **_SCENE_TEST,
        "_outputs_dir": _outputs_dir,
        "_sanitize_for_filename": _sanitize_for_filename,
        "_rehosted_ref_for": _rehosted_ref_for,
        **dict.fromkeys(("_rehosted_ref", "_l3_ref"), _rehosted_ref),
        **dict.fromkeys(("_build_l3_task_args", "_build_chip_task_args"), _build_task_args),
        "_compare_outputs": case.compare,
    },
    "simpler_setup.torch_interop": {"make_tensor_arg": worker.make_tensor_arg},
}


def install(checkout: str) -> None:
    """Put the stand-ins in place of simpler's packages. Goldens are modules of `checkout`, a `simpler_setup`, if it is
    not empty."""
    if any(isinstance(finder, _AbsentFinder) for finder in sys.meta_path):
        return
    modules = modules_of(_MODULES)
    for name, module in modules.items():
        if name != "simpler":
            _fill(module)
    modules["simpler_setup"].__path__ = [checkout] if checkout else []
    sys.modules.update(modules)
    sys.meta_path.append(_AbsentFinder())
