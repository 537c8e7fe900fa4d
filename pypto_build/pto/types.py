"""Types of the .pto language and the reader of their spellings.

A type compares by meaning; `text` keeps the spelling it was read with, so that printing does not change a file.
Dynamic extents are `DYNAMIC`. Facts: PTO dialect as PyPTO emits it (both spellings of `tile_buf`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypedDict

from pypto_build.facts.dtypes import PTO

from .errors import TypeSyntaxError

DYNAMIC = -1

SPACES = ("vec", "mat", "left", "right", "acc", "bias", "scaling", "gm")
BLAYOUTS = ("row_major", "col_major")
SLAYOUTS = ("none_box", "row_major", "col_major")


@dataclass(frozen=True)
class Type:
    """Base of all types; `text` is the original spelling."""

    text: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class OpaqueType(Type):
    """A type known by its name only: `!pto.pipe`, `vector<4xi16>`, …"""

    name: str = ""


@dataclass(frozen=True)
class ScalarType(Type):
    """`f32`, `index`, `ui8`, `!pto.hif8`, …; `name` has no `!pto.` prefix."""

    name: str = ""

    @property
    def bytes(self) -> int:
        return PTO[self.name].size

    @property
    def is_float(self) -> bool:
        return PTO[self.name].is_float


@dataclass(frozen=True)
class PtrType(Type):
    """Pointer into global memory (or, with `space`, into an on-chip one)."""

    element: Type = Type()
    space: str = "gm"


@dataclass(frozen=True)
class ViewType(Type):
    """`kind` is tensor_view (a whole GM tensor), partition_tensor_view (a window of one), tile_view or memref."""

    kind: str = ""
    shape: tuple[int, ...] = ()
    element: Type = Type()
    space: str = "gm"
    layout: str = ""


@dataclass(frozen=True)
class TileType(Type):
    """`!pto.tile_buf`: `rows` x `cols` elements in memory space `loc`, of which `v_row` x `v_col` are valid."""

    loc: str = "vec"
    dtype: Type = Type()
    rows: int = 0
    cols: int = 0
    v_row: int = DYNAMIC
    v_col: int = DYNAMIC
    blayout: str = "row_major"
    slayout: str = "none_box"
    fractal: int = 512
    pad: str = "0"
    compact: str = "0"

    @property
    def bytes(self) -> int:
        """Return the bytes that the tile occupies, padding of rows included."""
        size = self.rows * self.cols
        return (size + 1) // 2 if str(self.dtype) == "i4" else size * element_bytes(self.dtype)

    @property
    def fractal_extents(self) -> tuple[int, int]:
        """Return rows and columns of a fractal of the layout."""
        if self.fractal == 1024:
            return 16, 16
        per_row = 2 if self.fractal == 32 else max(32 // max(element_bytes(self.dtype), 1), 1)
        return (16, per_row) if self.slayout == "row_major" else (per_row, 16)


class _Layout(TypedDict, total=False):
    blayout: str
    slayout: str
    fractal: int


@dataclass(frozen=True)
class MultiTileType(Type):
    """`count` tiles of one type, a multi-buffer."""

    tile: Type = Type()
    count: int = 1


@dataclass(frozen=True)
class LocalArrayType(Type):
    """Array of scalars in the core's own memory."""

    shape: tuple[int, ...] = ()
    element: Type = Type()


@dataclass(frozen=True)
class FunctionType(Type):
    inputs: tuple[Type, ...] = ()
    results: tuple[Type, ...] = ()


def element_bytes(element: Type) -> int:
    """Return the bytes of one element; 0 if the type is not a known scalar."""
    return element.bytes if isinstance(element, ScalarType) else 0


def tile_type(
    loc: str,
    dtype: str,
    rows: int,
    cols: int,
    *,
    v_row: int = DYNAMIC,
    v_col: int = DYNAMIC,
    blayout: str = "row_major",
    slayout: str = "none_box",
    fractal: int = 512,
    pad: int = 0,
    compact: int = 0,
) -> TileType:
    """Return a tile type with PyPTO's spelling."""
    valid = ["?" if v == DYNAMIC else str(v) for v in (v_row, v_col)]
    text = (
        f"!pto.tile_buf<loc={loc}, dtype={dtype}, rows={rows}, cols={cols}, v_row={valid[0]}, v_col={valid[1]}, "
        f"blayout={blayout}, slayout={slayout}, fractal={fractal}, pad={pad}"
        f"{f', compact={compact}' if compact else ''}>"
    )
    tile = parse_type(text)
    assert isinstance(tile, TileType)
    return tile


# --- reading -----------------------------------------------------------------------------------------------------

_SCALAR = re.compile(r"(?:!pto\.)?(\w+)\Z")
_DIM = re.compile(r"\s*(\d+|\?)\s*x")


def parse_type(text: str) -> Type:
    """Return the type written as `text`; raises TypeSyntaxError with the expected text."""
    if len(text) > 4096 or text.count("<") > 16:
        raise TypeSyntaxError("expected a type of at most 4096 characters and 16 nested brackets")
    return _parse(text)


@lru_cache(maxsize=8192)
def _parse(text: str) -> Type:
    name = _SCALAR.match(text)
    if name and name[1] in PTO:
        return ScalarType(text, name[1])
    head, bracket, rest = text.partition("<")
    head = head.strip()
    if not bracket:
        if re.fullmatch(r"![\w.$]+|none", head):
            return OpaqueType(text, text)
        raise TypeSyntaxError(f"expected a type, found '{text[:40]}'")
    if not rest.rstrip().endswith(">"):
        raise TypeSyntaxError(f"expected '>' at the end of type '{text[:40]}'")
    reader = _READERS.get(head)
    if reader is not None:
        return reader(text, rest.rstrip()[:-1])
    if head.startswith("!") or head in ("vector", "tensor", "tuple", "complex"):
        return OpaqueType(text, "".join(text.split()))
    raise TypeSyntaxError(f"expected a type, found '{text[:40]}'")


def split_top(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in "<[(":
            depth += 1
        elif char in ">])":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return parts


def _shaped(text: str) -> tuple[tuple[int, ...], Type]:
    """Parse a shape: `64x?xf32` -> ((64, DYNAMIC), f32)."""
    dims, at = [], 0
    while match := _DIM.match(text, at):
        dims.append(DYNAMIC if match[1] == "?" else _number(match[1], "an extent"))
        at = match.end()
    return tuple(dims), parse_type(text[at:].strip())


def _number(text: str, what: str) -> int:
    if not re.fullmatch(r"\d{1,12}", text):
        raise TypeSyntaxError(f"expected {what} (a non-negative integer), found '{text[:20]}'")
    return int(text)


def _ptr(text: str, body: str) -> Type:
    parts = split_top(body)
    space = parts[1] if len(parts) > 1 else "gm"
    return PtrType(text, parse_type(parts[0]), _space_name(space))


def _space_name(text: str) -> str:
    match = re.fullmatch(r"#pto\.address_space<\s*(\w+)\s*>|#?(\w+)", text)
    return (match[1] or match[2]) if match else text


def _view(kind: str) -> Callable[[str, str], Type]:
    def read(text: str, body: str) -> Type:
        shape, element = _shaped(body.strip())
        return ViewType(text, kind, shape, element)

    return read


#: The layouts of memories whose tiles are fractals; of a memref, which names none.
_USUAL: dict[str, _Layout] = {
    "mat": {"blayout": "col_major", "slayout": "row_major"},
    "left": {"slayout": "row_major"},
    "right": {"slayout": "col_major"},
    "acc": {"blayout": "col_major", "slayout": "row_major", "fractal": 1024},
}


def _memref(text: str, body: str) -> Type:
    parts = split_top(body)
    shape, element = _shaped(parts[0])
    space = _space_name(parts[-1]) if len(parts) > 1 and "strided" not in parts[-1] else "gm"
    layout = next((p for p in parts[1:] if p.startswith("strided")), "")
    if space in SPACES and space != "gm" and len(shape) == 2 and DYNAMIC not in shape and not layout:
        return TileType(text, space, element, *shape, *shape, **_USUAL.get(space, {}))
    return ViewType(text, "memref", shape, element, space, layout)


_TILE_KEYS = ("loc", "dtype", "rows", "cols", "v_row", "v_col", "blayout", "slayout", "fractal", "pad", "compact")
_TILE_ALLOWED = {"loc": SPACES, "blayout": BLAYOUTS, "slayout": SLAYOUTS}
_PAD_NAMES = {"null": "0", "zero": "1", "max": "2", "min": "3"}
_COMPACT_NAMES = {"null": "0", "normal": "1", "row_plus_one": "2", "row_aligned_padding": "3"}


def _tile(text: str, body: str) -> Type:
    """Both spellings: `loc=vec, dtype=f32, rows=…` and `vec, 16x64xf32, valid=16x?, blayout=…`.

    Old samples also write `16x64xf32, #pto.address_space<vec>`, in the order of a memref.
    """
    parts = split_top(body)
    if parts[-1].startswith("#pto.address_space<") and "=" not in parts[0]:
        parts = [_space_name(parts[-1]), parts[0]]
    values: dict[str, str] = {}
    if "=" not in parts[0]:
        if len(parts) < 2 or parts[0] not in SPACES:
            raise TypeSyntaxError(
                f"tile_buf: expected a memory space ({', '.join(SPACES[:-1])}), found '{parts[0][:30]}'"
            )
        shape, element = _shaped(parts[1])
        if len(shape) != 2:
            raise TypeSyntaxError(f"tile_buf: expected rows x cols, found {len(shape)} extents")
        values = {"loc": parts[0], "dtype": str(element), "rows": str(shape[0]), "cols": str(shape[1])}
        values["v_row"], values["v_col"] = values["rows"], values["cols"]
        parts = parts[2:]
    for part in parts:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if key == "valid":
            values["v_row"], _, values["v_col"] = value.partition("x")
        elif not equals or key not in _TILE_KEYS:
            raise TypeSyntaxError(f"tile_buf: expected one of {', '.join(_TILE_KEYS)}, found '{part[:30]}'")
        else:
            values[key] = value
    missing = [key for key in _TILE_KEYS[:4] if key not in values]
    if missing:
        raise TypeSyntaxError(f"tile_buf: '{missing[0]}' is missing")
    return _tile_of(text, values)


def _tile_of(text: str, values: dict[str, str]) -> TileType:
    for key, allowed in _TILE_ALLOWED.items():
        if key in values and values[key] not in allowed:
            raise TypeSyntaxError(f"tile_buf: {key} must be one of {', '.join(allowed)}, found '{values[key][:30]}'")
    pad, compact = (values.get(key, "0") for key in ("pad", "compact"))
    compact = _COMPACT_NAMES.get(compact, compact)
    if compact not in _COMPACT_NAMES.values():
        raise TypeSyntaxError(f"tile_buf: compact must be one of {', '.join(_COMPACT_NAMES)}, found '{compact[:30]}'")
    extent = {k: DYNAMIC if values.get(k, "?") == "?" else _number(values[k], k) for k in ("v_row", "v_col")}
    return TileType(
        text,
        values["loc"],
        parse_type(values["dtype"]),
        _number(values["rows"], "rows"),
        _number(values["cols"], "cols"),
        extent["v_row"],
        extent["v_col"],
        values.get("blayout", "row_major"),
        values.get("slayout", "none_box"),
        _number(values.get("fractal", "512"), "fractal"),
        _PAD_NAMES.get(pad, pad),
        compact,
    )


def _multi(text: str, body: str) -> Type:
    parts = split_top(body)
    if len(parts) < 2 or not parts[-1].startswith("count"):
        raise TypeSyntaxError("multi_tile_buf: expected 'count=N' at the end")
    inner = ", ".join(parts[:-1])
    if not inner.startswith("!"):
        inner = f"!pto.{inner}" if inner.startswith("tile_buf") else f"!pto.tile_buf<{inner}>"
    return MultiTileType(text, parse_type(inner), _number(parts[-1].partition("=")[2].strip(), "count"))


def _local_array(text: str, body: str) -> Type:
    shape, element = _shaped(body)
    return LocalArrayType(text, shape, element)


_READERS = {
    "!pto.ptr": _ptr,
    "!pto.tensor_view": _view("tensor_view"),
    "!pto.partition_tensor_view": _view("partition_tensor_view"),
    "!pto.tile_view": _view("tile_view"),
    "memref": _memref,
    "!pto.tile_buf": _tile,
    "!pto.multi_tile_buf": _multi,
    "!pto.local_array": _local_array,
}
