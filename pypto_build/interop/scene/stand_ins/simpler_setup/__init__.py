"""Stands in for simpler's test machinery: what scene tests are written with, and nothing that compiles or runs."""

from __future__ import annotations

import os
from typing import Any

from pypto_build.interop.scene.absent import absent

from .scene_test import (
    CallableNamespace,
    Scalar,
    SceneTestCase,
    SceneTestLevel,
    TaskArgsBuilder,
    Tensor,
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

# A checkout of simpler around the test: its goldens are plain PyTorch.
if _checkout := os.environ.get("PYPTO_SCENE_CHECKOUT"):
    __path__.append(_checkout)


def __getattr__(name: str) -> Any:
    return absent(__name__, name)
