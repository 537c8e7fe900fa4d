"""Run single tile instructions on the CPU headers: a model of tiles in numpy, a compiler of small cases, and a core.

The model computes the positions of a tile's elements on its own, from the layout rules of the instruction set. So it
checks the headers instead of repeating them. A case is the body of a C function; many are compiled into one library.

``CXX`` names another compiler, and ``PYPTO_TEST_CXXFLAGS`` more flags, with which all instruction tests run:

    CXX=clang++-19 PYPTO_TEST_CXXFLAGS=-DPYPTO_CHECK pytest tests/runtime/instructions
    PYPTO_TEST_CXXFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined" ASAN_OPTIONS=detect_leaks=0 \
        LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)" \
        pytest tests/runtime/instructions
"""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests import kept

ROOT = Path(__file__).resolve().parents[3]
INCLUDE = ROOT / "pypto_build" / "runtime" / "include"
CXX = os.environ.get("CXX", "g++")
FLAGS = [
    "-std=c++17", "-O2", "-fPIC", "-shared", "-march=x86-64-v3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
    "-fno-strict-aliasing", "-D__CPU_SIM", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}",
    *shlex.split(os.environ.get("PYPTO_TEST_CXXFLAGS", "")),
]  # fmt: skip

Array = npt.NDArray[Any]

# C++ spelling of each element type and the numpy type of its bits; bfloat16 has no numpy type.
CPP = {
    "f32": "float", "f16": "half", "bf16": "bfloat16_t", "i8": "int8_t", "u8": "uint8_t", "i16": "int16_t",
    "u16": "uint16_t", "i32": "int32_t", "u32": "uint32_t", "i64": "int64_t", "u64": "uint64_t",
    "e4m3": "float8_e4m3_t", "e5m2": "float8_e5m2_t", "e8m0": "float8_e8m0_t", "hif8": "hifloat8_t",
}  # fmt: skip
NUMPY = {
    "f32": np.float32, "f16": np.float16, "bf16": np.uint16, "i8": np.int8, "u8": np.uint8, "i16": np.int16,
    "u16": np.uint16, "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
    "e4m3": np.uint8, "e5m2": np.uint8, "e8m0": np.uint8, "hif8": np.uint8,
}  # fmt: skip
FLOATS = ("f32", "f16", "bf16")
INTS = ("i8", "u8", "i16", "u16", "i32", "u32")
SPACES = ("Vec", "Mat", "Left", "Right", "Acc", "Bias", "Scaling", "ScaleLeft", "ScaleRight")
SPACE_BYTES = (256 << 10, 512 << 10, 64 << 10, 128 << 10, 256 << 10, 4 << 10, 8 << 10, 4 << 10, 4 << 10)


def size_of(dtype: str) -> int:
    """Bytes of one element."""
    return np.dtype(NUMPY[dtype]).itemsize


def bf16_round(values: Array) -> Array:
    """The bits of float64 values rounded to bfloat16, ties to even, in integer arithmetic on the float64 encoding."""
    doubles = np.asarray(values, np.float64)
    with np.errstate(all="ignore"):
        nearest = doubles.astype(np.float32)
    # Round to odd first, so that the second rounding sees what the first one dropped.
    bits = nearest.view(np.uint32).copy()
    inexact = np.isfinite(nearest) & (nearest.astype(np.float64) != doubles)
    too_far = inexact & (np.abs(nearest.astype(np.float64)) > np.abs(doubles))
    even = (bits & 1) == 0
    bits = np.where(inexact & even, np.where(too_far, bits - 1, bits + 1), bits).astype(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(doubles), np.uint16(0x7FC0), rounded).astype(np.uint16)


def encode(values: Array, dtype: str) -> Array:
    """Numbers as elements: float64 or integers, rounded to nearest even or wrapped."""
    if dtype == "bf16":
        return bf16_round(values)
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(NUMPY[dtype])


def decode(elements: Array, dtype: str) -> Array:
    """Elements as numbers: float64 for floating-point types, int64 for integers."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        if dtype == "bf16":
            return (elements.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        if dtype in FLOATS:
            return elements.astype(np.float64)
    return elements.astype(np.int64)


def random_elements(dtype: str, seed: int, rows: int, cols: int) -> Array:
    """Normal numbers for floating-point types, any value for integers."""
    rng = np.random.default_rng(seed)
    if dtype in FLOATS:
        return encode(rng.standard_normal((rows, cols)) * 4, dtype)
    info = np.iinfo(NUMPY[dtype])
    return rng.integers(info.min, info.max, (rows, cols), dtype=NUMPY[dtype], endpoint=True)


@dataclass(frozen=True)
class Tile:
    """A tile type: where its elements lie, and how it is written in C++. Valid extents are always dynamic."""

    dtype: str
    rows: int
    cols: int
    layout: str = "ND"  # ND, DN: no fractals, row- or column-major; NZ, ZN, ZZ: fractals in column or row order
    space: str = "Vec"
    fractal: int = 512
    pad: str = "Null"

    def cpp(self) -> str:
        box = {"ND": "NoneBox", "DN": "NoneBox", "NZ": "RowMajor", "ZZ": "RowMajor", "ZN": "ColMajor"}[self.layout]
        outer = "ColMajor" if self.layout in ("DN", "NZ") else "RowMajor"
        pad = self.pad if "(" in self.pad else f"PadValue::{self.pad}"
        return (
            f"Tile<TileType::{self.space}, {CPP[self.dtype]}, {self.rows}, {self.cols}, BLayout::{outer}, -1, -1, "
            f"SLayout::{box}, {self.fractal}, {pad}>"
        )

    def offsets(self) -> Array:
        """The element offset of every (row, column)."""
        r, c = np.mgrid[0 : self.rows, 0 : self.cols]
        if self.layout == "ND":
            return np.asarray(r * self.cols + c)
        if self.layout == "DN":
            return np.asarray(c * self.rows + r)
        short = 16 if self.fractal == 1024 else 32 // size_of(self.dtype)
        height, width = (short, 16) if self.layout == "ZN" else (16, short)
        if self.rows == 1:
            height = 1
        inside = (c % width) * height + r % height if self.layout == "ZN" else (r % height) * width + c % width
        if self.layout == "NZ":
            box = (c // width) * (self.rows // height) + r // height
        else:
            box = (r // height) * (self.cols // width) + c // width
        return np.asarray(box * height * width + inside)

    @property
    def nbytes(self) -> int:
        return self.rows * self.cols * size_of(self.dtype)

    def at(self, dtype: str) -> Tile:
        return replace(self, dtype=dtype)


class _Memory(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_uint64)]


class PipeSpec(ctypes.Structure):
    """A kernel's description of a pipe when it opens it."""

    _fields_ = [
        (n, ctypes.c_uint32) for n in ("flag_id", "slot_bytes", "slot_count", "direction", "local_slots", "no_split")
    ]


_FAULT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int)
PIPE_OPEN = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(PipeSpec))
PIPE_ADDRESS = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
PIPE_STEP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)


class _Context(ctypes.Structure):
    _fields_ = [
        ("abi", ctypes.c_uint32), ("is_vector", ctypes.c_uint32), ("sub_block", ctypes.c_int32),
        ("sub_block_dim", ctypes.c_int32), ("block_idx", ctypes.c_int32), ("block_num", ctypes.c_int32),
        ("memory", _Memory * len(SPACES)),
        ("pipe_open", PIPE_OPEN), ("pipe_acquire", PIPE_ADDRESS), ("pipe_commit", PIPE_STEP),
        ("pipe_front", PIPE_ADDRESS), ("pipe_release", PIPE_STEP),
        ("fault", _FAULT), ("runtime", ctypes.c_void_p), ("sync_all", ctypes.c_void_p), ("check", ctypes.c_void_p),
        ("signal_wait", ctypes.c_void_p), ("signal_notify", ctypes.c_void_p),
    ]  # fmt: skip


def compile_library(source: str, flags: Sequence[str] = ()) -> Path:
    """Compiles a source, once for all that have the same."""
    command = [CXX, *FLAGS, *flags]

    def compile_to(text: Path, target: Path) -> None:
        done = subprocess.run([*command, str(text), "-o", str(target)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]

    return kept.library(source, command, compile_to, INCLUDE)


class Cases:
    """Bodies of C functions that become one library. `v` is the array of int64 arguments of a call."""

    def __init__(self, prelude: str = "", arch: int = 2, flags: list[str] | None = None) -> None:
        self.bodies: dict[str, str] = {}
        self.prelude = prelude
        self.flags = [f"-DPYPTO_ARCH={arch}", *(flags or [])]

    def add(self, name: str, body: str) -> str:
        assert name not in self.bodies, name
        self.bodies[name] = body
        return name

    def source(self) -> str:
        head = "#include <cstdint>\n#include <pto/pto-inst.hpp>\nusing namespace pto;\n" + self.prelude
        parts = [
            f'extern "C" void {name}([[maybe_unused]] const int64_t *v) {{\n{body}\n}}'
            for name, body in self.bodies.items()
        ]
        return head + "\n" + "\n".join(parts) + "\n"

    def library(self) -> Path:
        return compile_library(self.source(), self.flags)

    def build(self) -> Core:
        return Core(self.library())


class Core:
    """One core with memories of its own, bound to a library of cases on the thread that makes it."""

    def __init__(self, library: Path, vector: bool = True, sub_block: int = 0, sub_block_dim: int = 1) -> None:
        self.library = ctypes.CDLL(str(library), mode=os.RTLD_NOW | os.RTLD_LOCAL)
        self.spaces: dict[str, Array] = {}
        self.context = _Context(
            abi=1, is_vector=vector, sub_block=sub_block, sub_block_dim=sub_block_dim, block_idx=0, block_num=1
        )
        self._keep: list[Array] = []
        for i, (name, size) in enumerate(zip(SPACES, SPACE_BYTES, strict=True)):
            raw = np.zeros(size + 128, np.uint8)
            start = -raw.ctypes.data % 128
            self._keep.append(raw)
            self.spaces[name] = raw[start : start + size]
            self.context.memory[i] = _Memory(self.spaces[name].ctypes.data, size)
        self.bind()

    def bind(self) -> None:
        """Makes the calling thread this core."""
        self.library.pypto_bind_core(ctypes.byref(self.context))

    def fill(self, space: str, byte: int) -> None:
        self.spaces[space][:] = byte

    def elements(self, tile: Tile, address: int) -> Array:
        """The tile's memory, a flat view of its elements."""
        return self.spaces[tile.space][address : address + tile.nbytes].view(NUMPY[tile.dtype])

    def put(self, tile: Tile, address: int, elements: Array) -> None:
        """Places a matrix of elements; it may be smaller than the tile."""
        rows, cols = elements.shape
        self.elements(tile, address)[tile.offsets()[:rows, :cols]] = elements

    def get(self, tile: Tile, address: int) -> Array:
        """All rows and columns of a tile."""
        return np.asarray(self.elements(tile, address)[tile.offsets()])

    def call(self, name: str, *arguments: int) -> None:
        packed = (ctypes.c_int64 * max(len(arguments), 1))(*arguments)
        function = getattr(self.library, name)
        function.restype = None
        function(packed)


def declare(*tiles: tuple[str, Tile, int, int]) -> str:
    """Declarations `name` of each tile at a byte address, with valid extents v[first], v[first + 1]."""
    return "\n".join(
        f"using {name}_t = {tile.cpp()}; {name}_t {name}(v[{first}], v[{first + 1}]); "
        f"TASSIGN({name}, (uint64_t){address});"
        for name, tile, address, first in tiles
    )
