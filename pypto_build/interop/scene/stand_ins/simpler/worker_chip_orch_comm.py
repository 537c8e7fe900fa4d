"""Stands in for simpler's regions between a worker and its chips."""

from __future__ import annotations

from typing import Any

from pypto_build.interop.scene.absent import absent
from pypto_build.interop.scene.regions import (
    WORKER_CHIP_ORCH_COMM_ABI_MAJOR,
    WORKER_CHIP_ORCH_COMM_ABI_MINOR,
    WORKER_CHIP_ORCH_COMM_MAGIC,
    NotifyOp,
    SignalTestResult,
    WaitCmp,
    WorkerChipOrchCounter,
    WorkerChipOrchRegion,
    WorkerChipOrchRegionDesc,
)

__all__ = [
    "WORKER_CHIP_ORCH_COMM_ABI_MAJOR",
    "WORKER_CHIP_ORCH_COMM_ABI_MINOR",
    "WORKER_CHIP_ORCH_COMM_MAGIC",
    "NotifyOp",
    "SignalTestResult",
    "WaitCmp",
    "WorkerChipOrchCounter",
    "WorkerChipOrchRegion",
    "WorkerChipOrchRegionDesc",
]


def __getattr__(name: str) -> Any:
    return absent(__name__, name)
