"""Stands in for the module of simpler's scene tests."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from pypto_build.interop.scene.absent import absent
from pypto_build.interop.scene.case import (
    CallableNamespace,
    Scalar,
    SceneTestCase,
    SceneTestLevel,
    TaskArgsBuilder,
    TensorArg,
    scene_level,
    scene_test,
)

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
    """Where the directories of records are, one for each case that was run."""
    return Path(os.environ["PYPTO_SCENE_OUTPUTS"])


def _sanitize_for_filename(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)


def __getattr__(name: str) -> Any:
    return absent(__name__, name)
