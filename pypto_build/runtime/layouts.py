"""Writes `layouts.h`, the C++ form of the tables in `pypto_build.facts` that the runtime's sources use."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pypto_build.facts import faults, layouts

#: Enumerations, with the type of their numbers.
_ENUMS: Mapping[str, tuple[type, str]] = {
    "FaultKind": (faults.FaultKind, "int32_t"),
    "Nearness": (faults.Nearness, "uint32_t"),
    "Escaped": (faults.Escaped, "uint32_t"),
    "StopCommand": (layouts.StopCommand, "uint8_t"),
    "FlightEvent": (layouts.FlightEvent, "uint16_t"),
}
_HEAD = """#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace pypto::runtime {
"""


def layouts_header() -> str:
    """Return the text of `layouts.h`."""
    parts = [_HEAD, *_constants(), *(_enum(name, *row) for name, row in _ENUMS.items())]
    kinds = [kind for kind in vars(layouts).values() if _is_layout(kind)]
    return "\n".join([*parts, *map(_struct, kinds), "} // namespace pypto::runtime\n"])


def _is_layout(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, layouts.Layout) and kind is not layouts.Layout


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _constants() -> Iterator[str]:
    for name, value in vars(layouts).items():
        if name.isupper() and isinstance(value, int) and not name.startswith("_"):
            width = 32 if value < 1 << 32 else 64
            yield f"inline constexpr uint{width}_t k{_camel(name)} = {value}u{'ll' * (width == 64)};"


def _enum(name: str, kind: type, number: str) -> str:
    rows = {row: int(value) for row, value in vars(kind).items() if row.isupper() and isinstance(value, int)}
    none = {} if 0 in rows.values() else {"NONE": 0}
    body = "".join(f"    {_camel(row)} = {value},\n" for row, value in {**none, **rows}.items())
    return f"enum class {name} : {number} {{\n{body}}};\n"


def _struct(kind: type[layouts.Layout]) -> str:
    body = "".join(f"    {_field(kind.CPP.get(name), name, of)};\n" for name, of, *_ in kind._fields_)
    size = f"static_assert(sizeof({kind.__name__}) == {ctypes.sizeof(kind)});\n"
    return f"struct {kind.__name__} {{\n{body}}};\n{size}"


def _field(cpp: str | None, name: str, kind: Any) -> str:
    extents = ""
    while not cpp and issubclass(kind, ctypes.Array):
        extents += f"[{kind._length_}]"
        kind = kind._type_
    return f"{cpp or _type(kind)} {name}{extents}"


def _type(kind: Any) -> str:
    if kind is ctypes.c_char or issubclass(kind, ctypes.Structure):
        return re.sub("^c_", "", kind.__name__)
    return f"{'u' * (kind(-1).value > 0)}int{8 * ctypes.sizeof(kind)}_t"
