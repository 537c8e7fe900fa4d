"""C++ spellings of types, constants and names."""

from __future__ import annotations

import math
import re

from pypto_build.facts.dtypes import PTO

from ..attributes import round_real
from ..types import DYNAMIC, PtrType, ScalarType, TileType, Type, ViewType

SCALARS = {name: row.cpp for name, row in PTO.items() if row.cpp}
SPACES = {
    "vec": "Vec", "mat": "Mat", "left": "Left", "right": "Right", "acc": "Acc", "bias": "Bias", "scaling": "Scaling",
}  # fmt: skip
BLAYOUTS = {"row_major": "RowMajor", "col_major": "ColMajor"}
SLAYOUTS = {"none_box": "NoneBox", "row_major": "RowMajor", "col_major": "ColMajor"}
PADS = {"0": "PadValue::Null", "1": "PadValue::Zero", "2": "PadValue::Max", "3": "PadValue::Min"}
COMPACTS = {"0": "Null", "1": "Normal", "2": "RowPlusOne", "3": "RowAlignedPadding"}

#: Reserved words of C++.
KEYWORDS = frozenset("""
    alignas alignof and asm auto bool break case catch char class compl concept const constexpr continue decltype
    default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int
    long mutable namespace new noexcept not nullptr operator or private protected public register reinterpret_cast
    requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
""".split())  # fmt: skip  # noqa: SIM905
# what a local variable must not be called: names that the generated code itself uses, too
_TAKEN = KEYWORDS | frozenset(SCALARS.values()) | {
    "pto", "args", "kernel_entry", "Tile", "GlobalTensor", "Shape", "Stride", "Layout", "get_block_idx",
    "get_block_num",
}  # fmt: skip


class UnsupportedCppType(ValueError):
    """A type that has no C++ counterpart here."""


def scalar(type_: Type | None) -> str:
    """The C++ type of a scalar, a pointer, or an element."""
    if isinstance(type_, ScalarType) and type_.name in SCALARS:
        return SCALARS[type_.name]
    if isinstance(type_, PtrType):
        return f"__gm__ {scalar(type_.element)}*"
    if isinstance(type_, ViewType) and type_.kind == "memref" and type_.space == "gm":
        return f"__gm__ {scalar(type_.element)}*"
    raise UnsupportedCppType(f"no C++ type for {type_}")


def tile(type_: TileType) -> str:
    """`Tile<…>`; unusual pad values are bit patterns."""
    if type_.loc not in SPACES:
        raise UnsupportedCppType(f"no tile in {type_.loc}")
    pad = PADS.get(type_.pad) or f"PadValue({type_.pad})"
    valid = [-1 if v == DYNAMIC else v for v in (type_.v_row, type_.v_col)]
    return (
        f"Tile<TileType::{SPACES[type_.loc]}, {scalar(type_.dtype)}, {type_.rows}, {type_.cols}, "
        f"BLayout::{BLAYOUTS[type_.blayout]}, {valid[0]}, {valid[1]}, SLayout::{SLAYOUTS[type_.slayout]}, "
        f"{type_.fractal}, {pad}, CompactMode::{COMPACTS.get(type_.compact, 'Null')}>"
    )


def integer(value: int, type_: Type | None = None) -> str:
    """An integer literal."""
    if isinstance(type_, ScalarType) and type_.name == "i1":
        return "true" if value else "false"
    if -(2**31) <= value < 2**31:
        return str(value) if value >= 0 else f"({value})"
    if value == -(2**63):
        return "(-9223372036854775807LL - 1)"
    return f"{value}LL" if value < 2**63 else f"{value}ULL"


def real(value: float, type_: Type) -> str:
    """A floating literal that has exactly the value `type_` rounds it to."""
    name = type_.name if isinstance(type_, ScalarType) else "f64"
    if math.isnan(value):
        text = '__builtin_nanf("")'
    elif math.isinf(value) or (name != "f64" and math.isinf(round_real(value, "f32"))):
        text = "__builtin_inff()" if value > 0 else "(-__builtin_inff())"
    elif name == "f64":
        return repr(value)
    else:
        text = f"{round_real(value, 'f32')!r}f"
    return text if name in ("f32", "f64") else f"({scalar(type_)})({text})"


class CppNames:
    """Unique C++ names for SSA values, close to their names in the .pto text."""

    def __init__(self) -> None:
        self.used: set[str] = set(_TAKEN)

    def new(self, hint: str) -> str:
        base = re.sub(r"\W", "_", hint.lstrip("%"), flags=re.ASCII)
        if not base or base[0].isdigit():
            base = f"v{base}"
        name, count = base, 0
        while name in self.used:
            count += 1
            name = f"{base}_{count}"
        self.used.add(name)
        return name
