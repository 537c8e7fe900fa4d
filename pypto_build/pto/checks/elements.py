"""Element types and layouts that an instruction takes, as ptoas and the hardware have them.

One row for all operations that agree. Signed, unsigned and signless integers of one width count alike. Facts: what
ptoas 0.48 accepts for each operation and element type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..model import Module, Operation
from ..resolve import Problem, Resolved, Value
from ..types import ScalarType, TileType, element_bytes

_ARITHMETIC = (
    "tadd tsub tmul tmax tmin tfmod tpartadd tpartmul tpartmax tpartmin tpartargmax tpartargmin tadds tsubs tmuls "
    "tmaxs tmins tfmods tdivs tneg trowsum trowmax trowmin trowprod trowargmax trowargmin trowexpandadd trowexpandsub "
    "trowexpandmul trowexpandmax trowexpandmin tcolsum tcolmax tcolmin tcolprod tcolexpandadd tcolexpandsub "
    "tcolexpandmul tcolexpandmax tcolexpandmin tcmps tsels ttri"
)
_REAL = (
    "tdiv tabs texp tlog tsqrt trecip trsqrt taxpy tprelu trowexpanddiv trowexpandexpdif tcolexpanddiv "
    "tcolexpandexpdif tsort32 tmrgsort"
)
# platform -> (operations, element types)
_TYPES: dict[str, tuple[tuple[str, str], ...]] = {
    "a2a3": (
        (_ARITHMETIC, "i16 i32 f16 f32"),
        (_REAL, "f16 f32"),
        ("tand tor txor tands tors txors", "i8 i16"),
        ("tshl tshr tshls", "i8 i16 i32"),
        ("tshrs tci", "i16 i32"),
        ("trem trems", "i32 f32"),
        ("tpow tpows", "i8 i16 i32 f32"),
        ("trelu tcmp", "i32 f16 f32"),
        ("tnot", "i16"),
        ("tsel texpands", "i16 i32 f16 bf16 f32"),
        (
            "trowexpand tcolexpand tcolargmax tcolargmin ttrans tconcat tconcatidx tscatter",
            "i8 i16 i32 f16 bf16 f32",
        ),
        ("tgather", "i16 i32 f16 bf16 f32"),
        ("mgather mscatter", "i8 i16 i32 f16 bf16 f32"),
        ("taddc taddsc tsubc tsubsc", "i16 i32 f16 f32"),  # what the two instructions take that they become
        ("tlrelu", "f16 f32"),
    ),
    "a5": (
        (
            "tadd tadds tcmp tcolargmax tcolargmin tcolexpand tcolmax tcolmin tcolsum tconcat texpands tgatherb tmaxs "
            "tmin tmins tmuls tneg tpartadd tpartmax tpartmin tpartmul trowexpand tsel tsubs ttrans ttri tpartargmax "
            "tpartargmin",
            "i8 i16 i32 f16 bf16 f32",
        ),
        (
            "tcmps tcolexpandadd tcolexpanddiv tcolexpandmax tcolexpandmin tcolexpandmul tcolexpandsub tdivs tmax tpow "
            "tpows trowexpandadd trowexpanddiv trowexpandmax trowexpandmin trowexpandmul trowexpandsub tsels tsub",
            "i8 i16 i32 f16 f32",
        ),
        ("taddc taddsc tconcatidx tscatter", "i8 i16 i32 f16 bf16 f32"),
        ("tsubc tsubsc", "i8 i16 i32 f16 f32"),
        ("tgather mgather mscatter", "i8 i16 i32 f16 bf16 f32 f8E4M3FN f8E5M2"),
        ("tlrelu", "f16 f32"),
        ("tcolprod", "i16 i32 f16 bf16 f32"),
        (
            "tdiv tfmod tfmods tmul trem trems trowargmax trowargmin trowmax trowmin trowprod trowsum",
            "i16 i32 f16 f32",
        ),
        ("trelu", "i32 f16 f32"),
        ("taxpy", "f16 bf16 f32"),
        (
            "tabs tcolexpandexpdif texp tlog tmrgsort tprelu trecip trowexpandexpdif trsqrt tsort32 tsqrt",
            "f16 f32",
        ),
        ("tand tands tnot tor tors tshl tshr tshrs txor txors", "i8 i16 i32"),
        ("tshls", "i8 i16 i32 i64"),
        ("tci", "i16 i32"),
    ),
}
_BOTH = (
    ("tquant", "f32"),
    ("tdequant", "i8 i16 i32"),
    ("tpack", "i16 i32"),
    ("trandom", "i32"),
    ("thistogram", "ui16 ui32"),
)
_ALLOWED = {
    arch: {f"pto.{name}": set(types.split()) for names, types in rows + _BOTH for name in names.split()}
    for arch, rows in _TYPES.items()
}
#: What tiles may have: one of these where no row says less.
_ANY = frozenset(("i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f8E4M3FN", "f8E5M2", "f8E8M0"))
_ONLY = {"pto.trandom": "a5", "pto.thistogram": "a5", "pto.tquant.mx": "a5"}

# operations, operands, and whether those are row-major (`r`) or have no boxes either (`rn`)
_LAYOUTS = (
    ("tadd tsub tmul tdiv tmax tmin tfmod tand tor tshl tshr tsel", "src0 src1 dst", "r"),
    ("trem txor tpow", "src0 src1 tmp dst", "r"),
    ("tfmods tands tors tshrs taxpy tabs texp tlog tsqrt trecip trelu tnot trsqrt tsels tsort32", "src dst", "r"),
    ("trems txors tpows", "src tmp dst", "r"),
    (
        "trowexpandadd tcolexpandadd tcolexpandsub tcolexpandmul tcolexpanddiv tcolexpandmax tcolexpandmin "
        "tcolexpandexpdif",
        "src0 dst",
        "r",
    ),
    ("trowexpandsub trowexpandmul trowexpanddiv trowexpandmax trowexpandmin trowexpandexpdif", "dst", "r"),
    ("texpands ttri tgatherb", "dst", "r"),
    ("ttrans", "src", "r"),
    ("trowsum trowmax trowmin trowprod trowargmax trowargmin", "src", "rn"),
    ("tcolsum tcolmax tcolmin tcolprod tcolargmax tcolargmin tcolexpand", "src dst", "rn"),
    ("trowexpand", "dst", "rn"),
)
_NOT_ON_A5 = ("pto.texpands", "pto.ttrans")
_LAYOUT = {
    f"pto.{name}": (roles.split(), kind) for names, roles, kind in _LAYOUTS for name in names.split()
}  # fmt: skip
_FRACTALS = (32, 512, 1024)


def element_types(name: str) -> frozenset[str]:
    """The element types that an operation takes on any platform, signed and unsigned ones apart: `i32`, `ui32`, …"""
    widths = frozenset().union(*(allowed.get(name, _ANY) for allowed in _ALLOWED.values()))
    return widths | {f"u{width}" for width in widths if width.startswith("i")}


def check_elements(resolved: Resolved, module: Module, arch: str) -> Iterator[Problem]:
    assert resolved.function.body is not None
    for op in resolved.function.body.walk():
        for message in _messages(resolved, op, arch):
            yield Problem(op, message, resolved.function)


def _messages(resolved: Resolved, op: Operation, arch: str) -> Iterator[str]:
    if op.name == "pto.alloc_tile":
        yield from _fractal(op)
    elif op.name in _SPECIAL:
        yield from _SPECIAL[op.name](resolved, op)
    yield from _types(resolved, op, arch)
    if arch != "a5" or op.name not in _NOT_ON_A5:
        yield from _layout(resolved, op)


def _tile(resolved: Resolved, op: Operation, role: str) -> tuple[Value, TileType] | None:
    value = resolved.value(op, role) if role in op.operands else None
    return (value, value.type) if value is not None and isinstance(value.type, TileType) else None


def _kind(type_: object) -> str:
    """`ui32` -> `i32`; empty for what is no plain number."""
    return type_.name.removeprefix("u").removeprefix("s") if isinstance(type_, ScalarType) else ""


def _types(resolved: Resolved, op: Operation, arch: str) -> Iterator[str]:
    only = _ONLY.get(op.name)
    if only and arch and arch != only:
        yield f"is an instruction of {only}, which {arch} does not have"
    allowed = _ALLOWED.get(arch, {}).get(op.name)
    for role in ("src", "src0", "dst"):
        found = _tile(resolved, op, role)
        if allowed is None or found is None:
            continue
        if found[1].loc == "vec" and not {_kind(found[1].dtype), str(found[1].dtype)} & allowed:
            yield f"{role} has elements {found[1].dtype}, {arch} takes {', '.join(sorted(allowed))}"
        return


def _layout(resolved: Resolved, op: Operation) -> Iterator[str]:
    roles, kind = _LAYOUT.get(op.name, ([], ""))
    for role in roles:
        found = _tile(resolved, op, role)
        if found is None or found[1].loc != "vec":
            continue
        if found[1].blayout != "row_major":
            yield f"{role} is a row_major tile, but {found[0].name} is {found[1].blayout}"
        elif kind == "rn" and found[1].slayout != "none_box":
            yield f"{role} is a tile without boxes, but {found[0].name} has slayout={found[1].slayout}"


def _fractal(op: Operation) -> Iterator[str]:
    type_ = op.result_types[0] if op.result_types else None
    if isinstance(type_, TileType) and type_.fractal not in _FRACTALS:
        yield f"fractal is one of {', '.join(map(str, _FRACTALS))}, found {type_.fractal}"


def _equal(*roles: str) -> Callable[[Resolved, Operation], Iterator[str]]:
    """The tiles of these roles have one element type."""

    def rule(resolved: Resolved, op: Operation) -> Iterator[str]:
        tiles = [(role, found[1]) for role in roles if (found := _tile(resolved, op, role))]
        for role, type_ in tiles[1:]:
            if type_.dtype != tiles[0][1].dtype:
                yield f"{role} has elements {type_.dtype}, {tiles[0][0]} has {tiles[0][1].dtype}"
                return

    return rule


def _number(resolved: Resolved, op: Operation) -> Iterator[str]:
    """The scalar that fills a tile has the type of its elements."""
    found = _tile(resolved, op, "dst")
    role = "scalar" if "scalar" in op.operands else "start"
    value = resolved.value(op, role) if role in op.operands else None
    if found is None or value is None or not isinstance(value.type, ScalarType) or value.type.name == "index":
        return
    if _kind(value.type) != _kind(found[1].dtype):
        yield f"{role} is a {value.type}, dst has elements {found[1].dtype}"


def _element(resolved: Resolved, op: Operation) -> Iterator[str]:
    """A value read from a tile has its type."""
    found = _tile(resolved, op, "tile")
    if found and op.result_types and _kind(op.result_types[0]) != _kind(found[1].dtype):
        yield f"the result is a {op.result_types[0]}, the tile has elements {found[1].dtype}"


def _index(resolved: Resolved, op: Operation) -> Iterator[str]:
    """Positions are whole numbers; data keeps its width. The form that compares yields positions."""
    if "k" in op.operands:
        yield from _positions(resolved, op)
        return
    index = _tile(resolved, op, "idx")
    if index and isinstance(index[1].dtype, ScalarType) and index[1].dtype.is_float:
        yield f"idx holds positions, found elements {index[1].dtype}"
    src, dst = _tile(resolved, op, "src"), _tile(resolved, op, "dst")
    if src and dst and element_bytes(src[1].dtype) != element_bytes(dst[1].dtype):
        yield f"dst has elements {dst[1].dtype}, src has {src[1].dtype}, of another width"


def _positions(resolved: Resolved, op: Operation) -> Iterator[str]:
    """argmax and argmin give 32-bit positions."""
    found = _tile(resolved, op, "dstidx") or _tile(resolved, op, "dst")
    if found and _kind(found[1].dtype) != "i32":
        yield f"dst holds positions (i32 or ui32), found elements {found[1].dtype}"


def _extract(resolved: Resolved, op: Operation) -> Iterator[str]:
    """Outside the accumulator a window keeps the element type; a part of `right` has the layout of `right`."""
    src, dst = _tile(resolved, op, "src"), _tile(resolved, op, "dst")
    if src is None or dst is None:
        return
    if src[1].loc != "acc" and src[1].dtype != dst[1].dtype:
        yield f"dst has elements {dst[1].dtype}, src has {src[1].dtype}"
    if dst[1].loc == "right" and (dst[1].blayout, dst[1].slayout) != ("row_major", "col_major"):
        yield f"dst in right is row_major with col_major boxes, found {dst[1].blayout} with {dst[1].slayout}"


_SPECIAL = {
    "pto.tscatter": _equal("src", "dst"),
    "pto.tsort32": _equal("src", "dst"),
    "pto.tmrgsort": _equal("src", "src0", "src1", "src2", "src3", "dst", "tmp"),
    "pto.texpands": _number,
    "pto.tci": _number,
    "pto.tgetval": _element,
    "pto.tgather": _index,
    "pto.trowargmax": _positions,
    "pto.trowargmin": _positions,
    "pto.textract": _extract,
}
