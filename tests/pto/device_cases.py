"""A clean use of every operation that a device constrains, and the violation of a constraint, made from its row.

A use is a module in which the operation's operands keep all rules. `planted` changes one fact of it, or two, until the
constraint is broken: an address, an element type, an extent, a memory, a layout, a number, an attribute.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice, product

from pypto_build.pto import parse
from pypto_build.pto.checks import check_module
from pypto_build.pto.checks.elements import element_types
from pypto_build.pto.errors import PtoError
from pypto_build.pto.ops import TABLE, OpDef, Role
from pypto_build.pto.ops.constraints import Constraint, Facts, PartFacts, TileFacts
from pypto_build.pto.types import ScalarType, TileType, parse_type, tile_type
from tests.pto.samples import LAYOUTS

_STEP = 16384  # bytes between the tiles of a use
_TYPES = ("f32", "f16", "i32", "i16", "bf16", "ui32", "i8", "ui8", "ui16", "i64")


@dataclass(frozen=True)
class Tile:
    dtype: str = "f32"
    rows: int = 16
    cols: int = 64
    v_row: int = 16
    v_col: int = 64
    loc: str = "vec"
    blayout: str = "row_major"
    slayout: str = "none_box"
    fractal: int = 512
    pad: int = 0
    compact: int = 0
    address: int = 0
    is_open: bool = False  # the type does not say how much is valid

    @property
    def text(self) -> str:
        return str(_type_of(replace(self, address=0)))


@cache
def _facts_of(tile: Tile) -> TileFacts:
    type_ = _type_of(replace(tile, address=0))
    return TileFacts(type_, tile.v_row, tile.v_col, tile.address, (tile.address, type_))


@cache
def _type_of(tile: Tile) -> TileType:
    v_row, v_col = (-1, -1) if tile.is_open else (tile.v_row, tile.v_col)
    return tile_type(
        tile.loc, tile.dtype, tile.rows, tile.cols, v_row=v_row, v_col=v_col, blayout=tile.blayout,
        slayout=tile.slayout, fractal=tile.fractal, pad=tile.pad, compact=tile.compact,
    )  # fmt: skip


@dataclass(frozen=True)
class Part:
    """A window of global memory; a stride of 0 stands for that of a dense matrix."""

    dtype: str = "f32"
    rows: int = 16
    cols: int = 64
    row_stride: int = 0
    col_stride: int = 1
    order: str = "nd"

    @property
    def strides(self) -> tuple[int, int]:
        return (
            (self.row_stride or self.cols, self.col_stride) if self.order != "dn" else (1, self.row_stride or self.rows)
        )

    @property
    def text(self) -> str:
        return f"!pto.partition_tensor_view<{self.rows}x{self.cols}x{self.dtype}>"

    def lines(self, name: str) -> Iterator[str]:
        """The window of a view of a pointer."""
        sizes = dict(zip("rcst", (self.rows, self.cols, *self.strides), strict=True))
        for axis, value in sizes.items():
            yield f"    %{name}_{axis} = arith.constant {value} : index"
        yield f"    %{name}_0 = arith.constant 0 : index"
        yield (
            f"    %{name}_v = pto.make_tensor_view %{name}_p, shape = [%{name}_r, %{name}_c], strides = "
            f"[%{name}_s, %{name}_t] {{layout = #pto.layout<{self.order}>}} : !pto.tensor_view<?x?x{self.dtype}>"
        )
        yield (
            f"    %{name} = pto.partition_view %{name}_v, offsets = [%{name}_0, %{name}_0], sizes = "
            f"[%{name}_r, %{name}_c] : !pto.tensor_view<?x?x{self.dtype}> -> {self.text}"
        )

    def facts(self) -> PartFacts:
        return PartFacts(parse_type(self.dtype), (self.rows, self.cols), self.strides, self.order)


@dataclass(frozen=True)
class Use:
    """One operation in one variant. `numbers`: type and value; `parts`: tensors in global memory."""

    op: str
    variant: int = 0
    tiles: dict[str, Tile] = field(default_factory=dict)
    numbers: dict[str, tuple[str, int]] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)
    attrs: dict[str, str] = field(default_factory=dict)

    @property
    def roles(self) -> list[Role]:
        variant = TABLE[self.op].variants[self.variant]
        there = {*self.tiles, *self.numbers, *self.parts}
        return [role for role in variant.roles() if role.name in there]

    def facts(self) -> Facts:
        tiles = {name: _facts_of(tile) for name, tile in self.tiles.items()}
        numbers = {name: (parse_type(dtype), value) for name, (dtype, value) in self.numbers.items()}
        order = tuple(role.name for role in TABLE[self.op].variants[self.variant].ins)
        attrs = {name: value.strip('"') for name, value in self.attrs.items()}
        parts = {name: part.facts() for name, part in self.parts.items()}
        return Facts(tiles, numbers, attrs, order, frozenset((*tiles, *numbers, *parts)), parts)

    def text(self, arch: str) -> str:
        """The module; the operation stands in the line before `return`."""
        lines = []
        for number, (name, (dtype, value)) in enumerate(self.numbers.items()):
            text = f"{value}.0" if _is_float(dtype) else str(value)
            lines.append(f"    %{name} = arith.constant {text} : {dtype}" if number >= 0 else "")
        for name, tile in self.tiles.items():
            lines.append(f"    %{name}_a = arith.constant {tile.address} : i64")
            extents = ""
            if tile.is_open:
                for axis, extent in (("r", tile.v_row), ("c", tile.v_col)):
                    lines.append(f"    %{name}_{axis} = arith.constant {extent} : index")
                extents = f" valid_row = %{name}_r valid_col = %{name}_c"
            lines.append(f"    %{name} = pto.alloc_tile addr = %{name}_a{extents} : {tile.text}")
        for name, part in self.parts.items():
            lines += part.lines(name)
        args = ", ".join(f"%{name}_p: !pto.ptr<{part.dtype}>" for name, part in self.parts.items())
        lines.append(f"    {self._operation()}")
        kind = TABLE[self.op].core or "vector"
        head = f'module attributes {{pto.target_arch = "{arch}"}} {{\n  func.func @k({args}) attributes '
        body = "\n".join(lines)
        return f"{head}{{pto.kernel_kind = #pto.kernel_kind<{kind}>}} {{\n{body}\n    return\n  }}\n}}\n"

    def _operation(self) -> str:
        row, variant = TABLE[self.op], TABLE[self.op].variants[self.variant]
        assert not variant.format, "operations of other formats are not constrained"
        here = {role.name for role in self.roles}
        inner = {k: v for k, v in self.attrs.items() if k in row.inner}
        outer = {k: v for k, v in self.attrs.items() if k not in row.inner}
        ins = self._group([r.name for r in variant.ins if r.name in here], inner, row)
        outs = self._group([r.name for r in variant.outs if r.name in here], {}, row)
        tail = f" {{{_attributes(outer, row)}}}" if outer else ""
        return f"{self.op} ins({ins}) outs({outs}){tail}"

    def _group(self, names: list[str], inner: dict[str, str], row: OpDef) -> str:
        within = f"{',' if row.inner_comma else ''} {{{_attributes(inner, row)}}}" if inner else ""
        return f"{', '.join(f'%{name}' for name in names)}{within} : {', '.join(self._type(name) for name in names)}"

    def _type(self, name: str) -> str:
        if name in self.tiles:
            return self.tiles[name].text
        return self.parts[name].text if name in self.parts else self.numbers[name][0]

    def line(self, arch: str) -> int:
        return self.text(arch).count("\n") - 3

    def findings(self, arch: str) -> list[PtoError] | None:
        """Return the findings of the checks; None for a module that cannot be read."""
        try:
            return check_module(parse(self.text(arch), "k.pto"), arch)
        except PtoError:
            return None


def _is_float(dtype: str) -> bool:
    type_ = parse_type(dtype)
    return isinstance(type_, ScalarType) and type_.is_float


def _attributes(attrs: dict[str, str], row: OpDef) -> str:
    words = []
    for name, value in attrs.items():
        kind = row.attrs[name].kind
        spelled = {"enum": f"#pto<{name} {value}>", "int": f"{value} : i32"}.get(kind, value)
        words.append(f"{name} = {spelled}")
    return ", ".join(words)


# --- a clean use -----------------------------------------------------------------------------------------------------


Fields = dict[str, object]
_ROW: Fields = {"rows": 1, "v_row": 1}
_COLUMN: Fields = {"cols": 1, "v_col": 1, "blayout": "col_major"}
_INDEX: Fields = {"dtype": "i32"}
_WIDE: Fields = {"cols": 128, "v_col": 128}
_SQUARE: Fields = {"cols": 16, "v_col": 16}
_VECTOR: dict[str, Fields] = {
    "a": {"v_row": 1}, "b": {"rows": 64, "v_row": 64}, "dst": {"v_row": 1}, "acc": {"v_row": 1, "address": 0},
}  # fmt: skip
_FROM_ACC: dict[str, Fields] = {"src": {"loc": "acc"}, "dst": {"loc": "mat", "dtype": "f16"}}
_TO_BIAS: dict[str, Fields] = {"src": _ROW | {"loc": "mat"}, "dst": _ROW | {"loc": "bias"}}
_TO_SCALING: dict[str, Fields] = {
    "src": _ROW | {"loc": "mat", "dtype": "i64"}, "dst": _ROW | {"loc": "scaling", "dtype": "i64"},
}  # fmt: skip
_TRANSPOSED: dict[str, Fields] = {
    "src": {"loc": "mat", "dtype": "i8", "rows": 64, "v_row": 64, "blayout": "row_major", "slayout": "col_major"},
    "dst": {"loc": "left", "dtype": "i8"},
}  # fmt: skip
_BOXED: dict[str, Fields] = {role: {"blayout": "col_major", "slayout": "row_major"} for role in ("src", "dst")}
_SCALES: dict[str, Fields] = {"fp": _ROW | {"loc": "scaling", "dtype": "i64"}}
#: Guesses that descent does not find: of some operands the memory, the extents, the address.
_GUESSES: dict[str, tuple[dict[str, Fields], ...]] = {
    "tprelu": ({"tmp": {"dtype": "ui8", "rows": 32, "v_row": 32}},),
    "tmrgsort": ({"src": _ROW | {"cols": 256, "v_col": 256}, "dst": _ROW | {"cols": 256, "v_col": 256}},
                 {role: _ROW | {"cols": 256 if role in ("dst", "tmp") else 64} for role in
                  ("dst", "tmp", "src0", "src1", "src2", "src3")}),
    **{f"tpartarg{fn}": (dict.fromkeys(("idx0", "idx1", "dstidx"), _INDEX),) for fn in ("max", "min")},
    **{f"tcolarg{fn}": ({"dst": _ROW | _INDEX, "dstidx": _ROW | _INDEX},) for fn in ("max", "min")},
    **{f"trowarg{fn}": ({"dst": _COLUMN | _INDEX, "dstidx": _COLUMN | _INDEX},) for fn in ("max", "min")},
    "tgather": ({"idx": _INDEX, "tmp": _INDEX, "cdst": _INDEX},
                {"dst": _INDEX, "tmp": _WIDE | _INDEX, "idx": _WIDE | _INDEX, "cdst": _INDEX}),
    "tcvt": ({}, {"src": {"dtype": "f16"}, "dst": {"dtype": "i8"}, "tmp": {"dtype": "f16"}}),
    "tquant": ({"dst": {"dtype": "i8"}, "scale": _COLUMN, "offset": _COLUMN},), "tdequant": ({"src": {"dtype": "i8"}},),
    **{f"trowexpand{fn}": ({}, {"src1": _COLUMN}) for fn in ("add", "sub", "mul", "div", "max", "min", "expdif")},
    "tsort32": ({"idx": {"dtype": "ui32"}, "dst": {"cols": 128, "v_col": 128}},),
    "tfillpad_expand": ({"dst": {"pad": 1}},), "tfillpad": ({"dst": {"pad": 1}},),
    "tfillpad_inplace": ({"dst": {"pad": 1, "address": 0}},),
    "tmatmul.acc": (dict.fromkeys(("a", "b", "dst"), _SQUARE) | {"acc": _SQUARE | {"address": 49152}},),
    "tmatmul.bias": (dict.fromkeys(("a", "b", "dst"), _SQUARE) | {"bias": _SQUARE | _ROW | {"loc": "bias"}},),
    "tgemv": (_VECTOR,), "tgemv.bias": (_VECTOR | {"bias": _ROW},),
    "tgemv.acc": (_VECTOR | {"acc": {"v_row": 1, "address": 49152}},),
    "tmov": ({}, {"src": {"loc": "mat"}, "dst": {"loc": "left"}}, _FROM_ACC, _TO_BIAS, _TO_SCALING,
             {"src": _COLUMN, "dst": _COLUMN}),
    "textract": ({}, {"src": {"loc": "mat"}, "dst": {"loc": "left"}}, _FROM_ACC, _TRANSPOSED, _BOXED),
    "tinsert": ({}, _FROM_ACC, _BOXED), "tmov.fp": (_FROM_ACC | _SCALES,), "textract_fp": (_FROM_ACC | _SCALES,),
    "tinsert_fp": (_FROM_ACC | _SCALES,), "tstore_fp": (_SCALES,), "tstore.fp": (_SCALES,),
    "tstore": ({}, {"src": {"loc": "acc", "is_open": True}}),
    "tload": ({}, {"dst": {"loc": "mat"}}),
    "mgather": ({"idx": _ROW | {"cols": 16, "v_col": 16, "dtype": "i32"}},),
}  # fmt: skip


def _start(name: str, variant: int, dtype: str, full: bool, guess: dict[str, Fields], arch: str) -> Use:
    """A first guess: tiles of one type, each in the first memory that its role allows."""
    form = TABLE[name].variants[variant]
    tiles: dict[str, Tile] = {}
    numbers: dict[str, tuple[str, int]] = {}
    parts: dict[str, Part] = {}
    for role in form.roles():
        if (role.optional or role.many) and not full:
            continue
        if role.kind in ("tile", "shaped", "entry") or role.name in guess:
            more = guess.get(role.name, {})
            loc = str(more.get("loc", role.spaces[0] if role.spaces else "vec"))
            usual = {
                "dtype": dtype,
                "loc": loc,
                "address": _STEP * len(tiles),
                "fractal": 1024 if loc == "acc" else 512,
            }
            tiles[role.name] = Tile(**{**usual, **_layout(loc, arch), **more})  # type: ignore[arg-type]
        elif role.kind == "part":
            parts[role.name] = Part(dtype)
        elif role.kind == "index":
            numbers[role.name] = ("index", 0)
        elif role.kind in ("int", "any"):
            numbers[role.name] = ("i32", 64)
        else:
            numbers[role.name] = (dtype, 3)
    return Use(name, variant, tiles, numbers, parts)


def _layout(loc: str, arch: str) -> dict[str, str]:
    return LAYOUTS["mat"] if (loc, arch) == ("left", "a5") else LAYOUTS[loc]


_SHAPES = ((16, 64), (16, 1), (1, 64), (16, 128), (64, 16), (32, 64), (16, 8), (1, 256), (16, 256), (64, 64), (1, 16),
           (16, 16), (32, 128), (16, 32), (32, 32))  # fmt: skip


def _with(use: Use, name: str, **more: object) -> Use:
    return replace(use, tiles={**use.tiles, name: replace(use.tiles[name], **more)})  # type: ignore[arg-type]


def _repairs(use: Use) -> Iterator[Use]:
    """Uses that differ in the type, the shape or the presence of one operand, or in an attribute."""
    for name, tile in use.tiles.items():
        for dtype in _TYPES:
            if dtype != tile.dtype:
                yield _with(use, name, dtype=dtype)
        for rows, cols in _SHAPES:
            column = cols == 1 and tile.loc == "vec"
            order = {"blayout": "col_major"} if column else LAYOUTS[tile.loc]
            yield _with(use, name, rows=rows, cols=cols, v_row=rows, v_col=cols, **order)
        for loc in ("vec", "mat", "left", "right", "acc", "bias", "scaling"):
            if loc != tile.loc:
                fractal = 1024 if loc == "acc" else 512
                yield _with(use, name, loc=loc, fractal=fractal, **LAYOUTS[loc])
        yield _with(use, name, pad=1)
        yield _with(use, name, blayout="col_major", slayout="row_major")
        for other in use.tiles.values():
            yield _with(use, name, address=other.address)
    for dtype in _TYPES:
        yield replace(
            use,
            tiles={n: replace(t, dtype=dtype) for n, t in use.tiles.items()},
            parts={n: replace(p, dtype=dtype) for n, p in use.parts.items()},
        )
    yield from _other_parts(use)
    yield from _other_numbers(use)
    yield from _other_attributes(use)


def _other_parts(use: Use) -> Iterator[Use]:
    for name, part in use.parts.items():
        for key, values in (
            ("dtype", _TYPES), ("order", ("nd", "dn", "nz")), ("row_stride", (70000, 128)), ("col_stride", (2,)),
            ("rows", (0, 1, 16, 4096, 20000)), ("cols", (0, 1, 8, 16, 3, 4096, 64, 70000)),
        ):  # fmt: skip
            for value in values:
                if getattr(part, key) != value:
                    yield replace(use, parts={**use.parts, name: replace(part, **{key: value})})  # type: ignore[arg-type]


def _other_numbers(use: Use) -> Iterator[Use]:
    for name, (dtype, value) in use.numbers.items():
        for other, number in (*((dtype, n) for n in (-1, 0, 1, 3, 64, 100, 5000)), *((t, value) for t in _TYPES)):
            if (other, number) != (dtype, value):
                yield replace(use, numbers={**use.numbers, name: (other, number)})


def _other_attributes(use: Use) -> Iterator[Use]:
    row = TABLE[use.op]
    for name, attr in row.attrs.items():
        values = {
            "enum": attr.cases,
            "int": ("0", "1", "2", "3", "7"),
            "bool": ("true", "false"),
            "any": ("1 : i32",),
            "str": ('"row"',),
        }.get(attr.kind, ())
        for value in values:
            if use.attrs.get(name) != value:
                yield replace(use, attrs={**use.attrs, name: value})
        if name in use.attrs:
            yield replace(use, attrs={k: v for k, v in use.attrs.items() if k != name})


def _count(use: Use, arch: str) -> int:
    actual = use.findings(arch)
    return 99 if actual is None else len(actual)


@cache
def clean(name: str, variant: int, arch: str, full: bool, number: int) -> Use | None:
    """A use without a finding, by descent from a guess."""
    types = sorted(element_types(name), key=lambda t: _TYPES.index(t) if t in _TYPES else 99)
    for dtype in dict.fromkeys((*types[:2], "f32", "f16", "i8")):
        use = _start(name, variant, dtype, full, _GUESSES.get(name[4:], ({},))[number], arch)
        left = _count(use, arch)
        while left:
            better = next(((count, one) for one in _repairs(use) if (count := _count(one, arch)) < left), None)
            if better is None:
                break
            left, use = better
        if not left:
            return use
    return None


# --- a violation -----------------------------------------------------------------------------------------------------


def _changes(use: Use, roles: frozenset[str]) -> Iterator[Use]:
    """Uses that differ from it in one fact of these roles, a number or an attribute."""
    for name, tile in use.tiles.items():
        if name not in roles:
            continue
        for other, theirs in use.tiles.items():
            if other != name:
                yield _with(use, name, address=theirs.address)
                yield _with(use, name, address=theirs.address + 32)
        for dtype in (*_TYPES, "f8E4M3FN"):
            yield _with(use, name, dtype=dtype)
        for key in ("rows", "cols"):
            valid = "v_row" if key == "rows" else "v_col"
            for extent in (1, 2, 8, 16, 32, 64, 128, 256, 512, 4096, 30720):
                yield _with(use, name, **{key: extent, valid: min(extent, getattr(tile, valid))})
                yield _with(use, name, **{key: extent, valid: extent})
            for extent in (0, 1, 3, getattr(tile, key) - 1, getattr(tile, key)):
                if 0 <= extent <= getattr(tile, key):
                    yield _with(use, name, **{valid: extent})
            yield _with(use, name, **{valid: getattr(tile, key) + 1})
        for loc in ("vec", "mat", "left", "right", "acc", "bias", "scaling"):
            yield _with(use, name, loc=loc)
        for key, values in (
            ("blayout", ("row_major", "col_major")), ("slayout", ("none_box", "row_major", "col_major")),
            ("fractal", (32, 512, 1024)), ("pad", (0, 1, 2)), ("compact", (0, 1)),
            ("address", (tile.address + 1, 188416)),
        ):  # fmt: skip
            for value in values:
                yield _with(use, name, **{key: value})
    for role in use.roles:
        if role.optional and role.name in roles:
            yield replace(use, tiles={name: tile for name, tile in use.tiles.items() if name != role.name})
    yield from _other_parts(use)
    yield from _other_numbers(use)
    yield from _other_attributes(use)


def bases(name: str, arch: str) -> Iterator[Use]:
    """Clean uses of every variant, with what is optional and without."""
    guesses = range(len(_GUESSES.get(name[4:], ({},))))
    for variant, full, number in product(range(len(TABLE[name].variants)), (True, False), guesses):
        use = clean(name, variant, arch, full, number)
        if use is not None:
            yield use


def violations(constraint: Constraint, name: str, arch: str) -> Iterator[Use]:
    """Uses that break the constraint by one changed fact, then by two."""
    uses = [use for use in bases(name, arch) if _speaks_of(constraint, use)]
    first = [one for use in uses for one in _changes(use, constraint.roles)]
    yield from (one for one in first if constraint.is_broken(one.facts()))
    for one in first:
        second = _changes(one, constraint.roles)
        yield from islice((two for two in second if constraint.is_broken(two.facts())), 1)


def _speaks_of(constraint: Constraint, use: Use) -> bool:
    missing = constraint.roles - {role.name for role in use.roles}
    return not missing or "present" in constraint.text


def is_of_kernels(constraint: Constraint, name: str) -> bool:
    """Return whether it is about the order of elements in `left`; kernels write it, in modules the assembler does."""
    spaces = {role.name: role.spaces for role in TABLE[name].roles()}
    return any(f"blayout({role})" in constraint.text and spaces[role] == ("left",) for role in constraint.roles)


def planted(constraint: Constraint, name: str, arch: str, anywhere: bool = False) -> Use | None:
    """The first of them that the checks find at its line, or `anywhere` in its module."""
    for tried, use in enumerate(violations(constraint, name, arch)):
        actual = use.findings(arch)
        if actual and (anywhere or any(error.position.line == use.line(arch) for error in actual)):
            return use
        if tried > 20:
            break
    return None
