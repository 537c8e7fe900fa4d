"""Stands in for simpler's workers: those of one chip and of several."""

from __future__ import annotations

from typing import Any

from pypto_build.artifact.scenes import CHIP_LEVEL
from pypto_build.interop.scene import worker
from pypto_build.interop.scene.absent import absent
from pypto_build.interop.scene.node import NodeWorker

__all__ = ["Worker"]


class Worker:
    """The worker of a level: of one chip, or of several."""

    def __new__(cls, level: int = CHIP_LEVEL, **options: Any) -> Any:
        """Return a worker for one chip (the default level), or for several."""
        return (worker.OneChipWorker if level == CHIP_LEVEL else NodeWorker)(level=level, **options)


def __getattr__(name: str) -> Any:
    return absent(__name__, name)
