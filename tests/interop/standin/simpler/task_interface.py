"""Stand-in for simpler.task_interface."""

import ctypes
import struct
from enum import IntEnum

from simpler import VINTAGE


class ArgDirection(IntEnum):
    SCALAR = 0
    IN = 1
    OUT = 2
    INOUT = 3


class TensorArgType(IntEnum):
    INPUT = 0
    OUTPUT = 1
    INOUT = 2
    OUTPUT_EXISTING = 3
    NO_DEP = 4


class DataType(IntEnum):
    FLOAT32 = 7


class Tensor:
    """A tensor on a device; host tensors are torch tensors here."""


class CoreCallable:
    @classmethod
    def build(cls, signature, binary):
        made = cls()
        made.signature, made.binary = list(signature), bytes(binary)
        return made


class ChipCallable:
    @classmethod
    def build(cls, signature, func_name, binary, children, config_name=""):
        made = cls()
        made.signature, made.func_name, made.binary = list(signature), func_name, bytes(binary)
        made.children, made.config_name = list(children), config_name
        assert all(isinstance(child, CoreCallable) for _, child in made.children)
        return made


class _Args:
    def __init__(self):
        self.tensors, self.scalars = [], []

    def add_scalar(self, value):
        assert isinstance(value, int) and 0 <= value < 1 << 64
        self.scalars.append(value)


class ChipStorageTaskArgs(_Args):
    def add_tensor(self, tensor):
        self.tensors.append(tensor)


if VINTAGE >= "2026-08":

    class TaskArgs(_Args):
        def add_tensor(self, tensor, tag=TensorArgType.INPUT):
            assert isinstance(tag, TensorArgType)
            self.tensors.append(tensor)


_FIELDS = {
    "2026-04": ("block_dim", "aicpu_thread_num", "enable_profiling", "enable_dump_tensor"),
    "2026-05": (
        "block_dim",
        "aicpu_thread_num",
        "enable_l2_swimlane",
        "enable_dump_tensor",
        "enable_pmu",
        "enable_dep_gen",
        "output_prefix",
    ),
}
_FIELDS["2026-06"] = (*_FIELDS["2026-05"], "enable_scope_stats", "runtime_env")
_FIELDS["2026-07"] = tuple(name.replace("dump_tensor", "dump_args") for name in _FIELDS["2026-06"])
_FIELDS["2026-08"] = tuple(
    name.replace("l2_swimlane", "chip_swimlane") for name in _FIELDS["2026-07"] if name != "block_dim"
)


class _Config:
    __slots__ = _FIELDS.get(VINTAGE, ())

    def __init__(self):
        for name in self.__slots__:
            setattr(self, name, "" if name == "output_prefix" else 0)


if VINTAGE == "2026-04":
    ChipCallConfig = _Config
else:
    CallConfig = _Config


def scalar_to_uint64(value):
    if isinstance(value, ctypes.c_double):
        return struct.unpack("<Q", struct.pack("<d", value.value))[0]
    if isinstance(value, (float, ctypes.c_float)):
        return struct.unpack("<I", struct.pack("<f", getattr(value, "value", value)))[0]
    return int(getattr(value, "value", value)) & (1 << 64) - 1


def make_tensor_arg(tensor):
    """Its home until May 2026."""
    assert VINTAGE < "2026-08" and tensor.is_contiguous() and tensor.dim() >= 1
    return tensor


if VINTAGE >= "2027":  # one that nobody knows yet
    del CoreCallable
