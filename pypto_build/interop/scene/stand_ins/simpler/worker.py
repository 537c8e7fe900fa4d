"""Stands in for simpler's workers: that of one chip."""

from __future__ import annotations

from typing import Any

from pypto_build.interop.scene.absent import absent
from pypto_build.interop.scene.worker import Worker

__all__ = ["Worker"]


def __getattr__(name: str) -> Any:
    return absent(__name__, name)
