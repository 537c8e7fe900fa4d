"""Stands in for the module of simpler's scene tests."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from pypto_build.interop.scene.absent import absent
from pypto_build.interop.scene.arguments import Scalar, TaskArgsBuilder, TensorArg
from pypto_build.interop.scene.case import (
    CallableNamespace,
    SceneTestCase,
    SceneTestLevel,
    compare,
    scene_level,
    scene_test,
)
from pypto_build.interop.scene.memory import tensor_of
from pypto_build.interop.scene.recorder import task_args_of

__all__ = [
    "CallableNamespace",
    "Scalar",
    "SceneTestCase",
    "SceneTestLevel",
    "TaskArgsBuilder",
    "Tensor",
    "TensorArg",
    "scene_level",
    "scene_test",
]

#: Its name until August 2026.
Tensor = TensorArg


def _outputs_dir() -> Path:
    """Return the directory that has a directory of records for each case that ran."""
    return Path(os.environ["PYPTO_SCENE_OUTPUTS"])


def _sanitize_for_filename(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)


def _rehosted_ref_for(test_args: TaskArgsBuilder, tensor: Any) -> Any:
    """Return a tensor of the case's arguments as an argument of a dispatch."""
    return tensor_of(tensor)


def _rehosted_ref(test_args: TaskArgsBuilder, name: str) -> Any:
    """Return the tensor with this name as an argument of a dispatch."""
    return tensor_of(getattr(test_args, name))


def _l3_ref(test_args: TaskArgsBuilder, name: str, worker: Any = None) -> Any:
    """Return the tensor with this name as an argument of a worker's dispatch."""
    return tensor_of(getattr(test_args, name))


def _build_l3_task_args(test_args: TaskArgsBuilder, orch_signature: Any, worker: Any = None) -> Any:
    """Return all arguments of the case for one dispatch, and the names of the outputs."""
    return task_args_of(test_args, orch_signature)


def _build_chip_task_args(test_args: TaskArgsBuilder, orch_signature: Any) -> Any:
    """Return all arguments of the case for a chip's own worker, and the names of the outputs."""
    return task_args_of(test_args, orch_signature)


def _compare_outputs(
    test_args: TaskArgsBuilder, golden_args: TaskArgsBuilder, output_names: list[str], rtol: float, atol: float
) -> None:
    """Raise AssertionError for an output that differs from its golden by more than these tolerances."""
    compare(test_args, golden_args, output_names, rtol, atol)


def __getattr__(name: str) -> Any:
    return absent(__name__, name)
