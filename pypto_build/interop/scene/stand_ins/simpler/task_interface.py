"""Stands in for simpler's task interface: the enumerations that scene tests declare with."""

from __future__ import annotations

import ctypes
import struct
from enum import IntEnum
from typing import Any

from pypto_build.artifact import ArgDirection
from pypto_build.interop.scene.absent import absent
from pypto_build.interop.scene.recorder import TaskArgs
from pypto_build.interop.scene.worker import CallConfig, ChipCallable, CoreCallable
from pypto_build.replay.chips.dispatches import TensorArgType
from pypto_build.replay.chips.stand_ins import CommBufferSpec

__all__ = [
    "ArgDirection",
    "CallConfig",
    "ChipCallable",
    "CommBufferSpec",
    "CoreCallable",
    "DataType",
    "TaskArgs",
    "TensorArgType",
    "scalar_to_uint64",
]


class DataType(IntEnum):
    """Element types by their numbers."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT32 = 2
    INT16 = 3
    INT8 = 4
    UINT8 = 5
    BFLOAT16 = 6
    INT64 = 7
    UINT64 = 8
    UINT16 = 9
    UINT32 = 10
    FP8E4M3FN = 12
    FP8E8M0 = 13
    FP4E2M1 = 14


def scalar_to_uint64(value: Any) -> int:
    """Return the 64 bits that a scalar is passed as: a float as float32, a ctypes value by its own bits."""
    if isinstance(value, (ctypes.c_float, float)):
        number = value.value if isinstance(value, ctypes.c_float) else value
        return int(struct.unpack("<I", struct.pack("<f", number))[0])
    if isinstance(value, ctypes.c_double):
        return int(struct.unpack("<Q", struct.pack("<d", value.value))[0])
    return int(getattr(value, "value", value)) & (1 << 64) - 1


def __getattr__(name: str) -> Any:
    return absent(__name__, name)
