"""Lines of a .pto function: constants collected in front, spellings of types, numbers and positions."""

from __future__ import annotations

import math
import struct

from pypto_build.facts.dtypes import INDEX, DType
from pypto_build.facts.positions import SourcePosition

from .errors import CompileError
from .ir import Const, Dim, Operand, Ref, TileType

_PADS = {"null": 0, "zero": 1, "max": 2, "min": 3}
_LAYOUTS = {
    "vec": ("row_major", "none_box", 512),
    "mat": ("col_major", "row_major", 512),
    "left": ("row_major", "row_major", 512),
    "right": ("row_major", "col_major", 512),
    "acc": ("col_major", "row_major", 1024),
}


def tile_text(tile: TileType, arch: str, *, transposed: bool = False) -> str:
    """Return `!pto.tile_buf<…>`; an allocation always states the valid extents."""
    blayout, slayout, fractal = _LAYOUTS[tile.space]
    if tile.is_column:
        blayout = "col_major"
    if tile.space == "left" and arch == "a5":
        blayout = "col_major"
    if transposed:
        blayout, slayout = "row_major", "col_major"
    # with fewer rows than it has, an accumulator is compact: what reads it counts with the valid ones
    compact = ", compact=1" if tile.space == "acc" and tile.valid[0] != tile.shape[0] else ""
    return (
        f"!pto.tile_buf<loc={tile.space}, dtype={tile.dtype.pto}, rows={tile.shape[0]}, cols={tile.shape[1]}, v_row=?, "
        f"v_col=?, blayout={blayout}, slayout={slayout}, fractal={fractal}, pad={_PADS[tile.pad]}{compact}>"
    )


def number_text(value: float, dtype: DType) -> str:
    """Return a float in MLIR's spelling; the bit pattern if it has no decimal form."""
    if math.isfinite(value):
        return f"{value:.17e}"
    if dtype.name == "BF16":
        bits = struct.unpack("<I", struct.pack("<f", value))[0] >> 16
        return f"0x{bits:04X}"
    code, width = {"FP32": ("<f", 8), "FP16": ("<e", 4)}[dtype.name]
    return f"0x{int.from_bytes(struct.pack(code, value), 'little'):0{width}X}"


class Text:
    """The lines of one .pto function."""

    def __init__(self, locations: bool) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, str] = {}
        self.names: dict[str, str] = {}  # value of the program -> SSA name
        self.depth = 0
        self.locations = locations
        self.position = SourcePosition()
        self.count = 0

    def add(self, line: str, *, located: bool = True) -> None:
        tail = ""
        if located and self.locations and self.position.line:
            tail = f' loc("{self.position.path}":{self.position.line}:{self.position.column})'
        self.lines.append("  " * (self.depth + 1) + line + tail)

    def fresh(self) -> str:
        self.count += 1
        return f"%{self.count - 1}"

    def define(self, name: str) -> str:
        self.names[name] = f"%{name}"
        return self.names[name]

    def constant(self, value: int | float | bool, dtype: DType | str = INDEX) -> str:
        """Return the name of a constant, which is written once at the top of the function."""
        if isinstance(dtype, DType) and dtype.is_float:
            text = number_text(float(value), dtype)
            key = f"{text} : {dtype.pto}"
            if key not in self.constants:
                number = sum(1 for name in self.constants.values() if name.startswith("%cst"))
                self.constants[key] = f"%cst_{number}" if number else "%cst"
            return self.constants[key]
        pto = dtype if isinstance(dtype, str) else dtype.pto
        if pto == "i1":
            return self.constants.setdefault(f"{'true' if value else 'false'}", f"%{'true' if value else 'false'}")
        number = int(value)
        sign = "n" if number < 0 else ""
        return self.constants.setdefault(f"{number} : {pto}", f"%c{sign}{abs(number)}_{pto}")

    def value(self, operand: Operand, dtype: DType | str = INDEX) -> str:
        """Return the SSA name of a number."""
        match operand:
            case Const(value):
                return self.constant(value, dtype)
            case Ref(name) if name in self.names:
                return self.names[name]
            case Ref(name):
                raise CompileError(self.position, f"{name} has no value in this function")
        raise TypeError("a list is no number")

    def extent(self, dim: Dim) -> str:
        return self.value(Const(dim) if isinstance(dim, int) else dim)

    def header(self) -> list[str]:
        return [f"  {name} = arith.constant {text}" for text, name in self.constants.items()]
