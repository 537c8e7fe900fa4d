"""Stands in for simpler's queues of messages between a worker and its chips."""

from __future__ import annotations

from typing import Any

from pypto_build.interop.scene.absent import absent
from pypto_build.interop.scene.queues import (
    WORKER_CHIP_QUEUE_ABI_MAJOR,
    WORKER_CHIP_QUEUE_ABI_MINOR,
    WORKER_CHIP_QUEUE_COUNTER_BYTES,
    WORKER_CHIP_QUEUE_COUNTER_STRIDE,
    WORKER_CHIP_QUEUE_DESC_SLOT_BYTES,
    WORKER_CHIP_QUEUE_MAGIC,
    WORKER_CHIP_QUEUE_MAX_DEPTH,
    WORKER_CHIP_QUEUE_PAYLOAD_ARENA_ALIGNMENT,
    WorkerChipQueue,
    WorkerChipQueueLayout,
    WorkerChipQueueMessage,
    WorkerChipQueueOpcode,
    make_worker_chip_queue_layout,
    worker_chip_queue_magic_version,
)

__all__ = [
    "WORKER_CHIP_QUEUE_ABI_MAJOR",
    "WORKER_CHIP_QUEUE_ABI_MINOR",
    "WORKER_CHIP_QUEUE_COUNTER_BYTES",
    "WORKER_CHIP_QUEUE_COUNTER_STRIDE",
    "WORKER_CHIP_QUEUE_DESC_SLOT_BYTES",
    "WORKER_CHIP_QUEUE_MAGIC",
    "WORKER_CHIP_QUEUE_MAX_DEPTH",
    "WORKER_CHIP_QUEUE_PAYLOAD_ARENA_ALIGNMENT",
    "WorkerChipQueue",
    "WorkerChipQueueLayout",
    "WorkerChipQueueMessage",
    "WorkerChipQueueOpcode",
    "create_worker_chip_queue",
    "make_worker_chip_queue_layout",
    "worker_chip_queue_magic_version",
]


def create_worker_chip_queue(orch: Any, **sizes: int) -> WorkerChipQueue:
    """Return a queue of an orchestration."""
    queue: WorkerChipQueue = orch.create_worker_chip_queue(**sizes)
    return queue


def __getattr__(name: str) -> Any:
    return absent(__name__, name)
