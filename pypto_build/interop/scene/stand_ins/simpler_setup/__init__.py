"""Stands in for simpler's test machinery: the classes and decorators of scene tests, but no compiler or runner."""

from __future__ import annotations

import os
from typing import Any

from pypto_build.interop.scene.absent import absent

from . import scene_test as _module

# One of the names, scene_test, is the module's own: the decorator takes its place, as in simpler.
globals().update({name: getattr(_module, name) for name in _module.__all__})

# A checkout of simpler around the test: its goldens are plain PyTorch.
if _checkout := os.environ.get("PYPTO_SCENE_CHECKOUT"):
    __path__.append(_checkout)


def __getattr__(name: str) -> Any:
    return absent(__name__, name)
