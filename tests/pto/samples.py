"""Texts and operations that several tests use, and an operation made from any definition of the table."""

from __future__ import annotations

from collections.abc import Iterator

from pypto_build.pto.model import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    EnumAttr,
    FloatAttr,
    IntAttr,
    Operation,
    Region,
    StrAttr,
    SymbolAttr,
    TypeAttr,
)
from pypto_build.pto.ops import AttrDef, OpDef, Role
from pypto_build.pto.ops.format import Directive, compile_format
from pypto_build.pto.types import Type, parse_type, tile_type

LAYOUTS = {
    "vec": {"blayout": "row_major", "slayout": "none_box"},
    "mat": {"blayout": "col_major", "slayout": "row_major"},
    "left": {"blayout": "row_major", "slayout": "row_major"},
    "right": {"blayout": "row_major", "slayout": "col_major"},
    "acc": {"blayout": "col_major", "slayout": "row_major"},
    "bias": {"blayout": "row_major", "slayout": "none_box"},
    "scaling": {"blayout": "row_major", "slayout": "none_box"},
}


def tile(loc: str = "vec", rows: int = 16, cols: int = 64, dtype: str = "f32", **more: str) -> str:
    """The PyPTO spelling of a tile type with the layout its memory usually has."""
    fractal = 1024 if loc == "acc" else 512
    return str(tile_type(loc, dtype, rows, cols, fractal=fractal, **(LAYOUTS[loc] | more)))  # type: ignore[arg-type]


def module(body: str, args: str = "", kind: str = "vector", arch: str = "a2a3") -> str:
    """A module with one function `k`; `body` is its operations, `return` left out."""
    return f'module attributes {{pto.target_arch = "{arch}"}} {{\n{function(body, args, kind)}}}\n'


def function(body: str, args: str = "", kind: str = "vector", name: str = "k") -> str:
    attributes = f" attributes {{pto.kernel_kind = #pto.kernel_kind<{kind}>}}" if kind else ""
    return f"  func.func @{name}({args}){attributes} {{\n{body}\n  return\n  }}\n"


_KIND_TYPES = {
    "tiles": "!pto.multi_tile_buf<vec, 16x64xf32, count=2>",
    "ptr": "!pto.ptr<f32>",
    "view": "!pto.tensor_view<?x?xf32>",
    "part": "!pto.partition_tensor_view<16x64xf32>",
    "shaped": "!pto.partition_tensor_view<16x64xf32>",
    "scalar": "f32",
    "index": "index",
    "int": "i32",
    "float": "f32",
    "bool": "i1",
    "array": "!pto.local_array<4xi32>",
    "any": "i64",
}


def type_for(role: Role) -> Type:
    if role.kind in ("tile", "entry"):
        return parse_type(tile(role.spaces[0] if role.spaces else "vec"))
    return parse_type(_KIND_TYPES[role.kind])


def attribute_for(definition: AttrDef) -> Attribute:
    if definition.kind == "enum":
        case = definition.cases[-1]
        return EnumAttr(case, definition.name, f"#pto.{definition.name}<{case}>")
    made: dict[str, Attribute] = {
        "int": IntAttr(3),
        "bool": BoolAttr(True),
        "float": FloatAttr(0.5, None, "0.5"),
        "str": StrAttr("name"),
        "symbol": SymbolAttr("peer"),
        "type": TypeAttr(parse_type("f32")),
        "any": EnumAttr("PIPE_ALL", "", "<PIPE_ALL>"),
    }
    return made[definition.kind]


def operation_for(definition: OpDef, form: int, *, full: bool) -> Operation:
    """An operation in one form, with everything optional (`full`) or nothing of it."""
    op = Operation(definition.name, variant=form)
    op.results = tuple(f"%r{i}" for i in range(max(definition.results, 0)))
    layout = definition.variants[form]
    roles = {role.name: role for role in layout.roles() if full or not (role.optional or role.many)}
    for name, role in roles.items():
        count = 2 if role.many else 1
        op.operands[name] = tuple(f"%{name}{i}" for i in range(count))
        if not layout.format:
            op.types[name] = (type_for(role),) * count
    op.attrs = {n: attribute_for(a) for n, a in definition.attrs.items() if full or a.required}
    if layout.format:
        written = set()
        for step in steps_of(compile_format(layout.format), full):
            written |= {step.name or "value"} if step.code in "AWIC" else set()
            _apply(step, definition, op, roles)
        if not any(s.code == "{}" for s in steps_of(compile_format(layout.format), full)):
            op.attrs = {name: value for name, value in op.attrs.items() if name in written}
        for name, role in roles.items():  # a list in brackets is written even when it is empty
            if role.many and full is False:
                op.operands[name] = ()
    return op


def steps_of(steps: tuple[Directive, ...], full: bool) -> Iterator[Directive]:
    for step in steps:
        if step.code == "opt":
            if full:
                yield from steps_of(step.body, full)
        else:
            yield step


def _apply(step: Directive, definition: OpDef, op: Operation, roles: dict[str, Role]) -> None:
    """Add the parts that a step of a format writes beyond the operands."""
    if step.code == "T$":
        for name in step.name.split(","):
            op.types[name] = (type_for(roles[name]),)
    elif step.code == "T=":
        op.result_types = (parse_type(tile()),)
    elif step.code in "PK":
        for name in step.groups_names():
            if name in roles:
                op.types[name] = (type_for(roles[name]),) * len(op.operands[name])
    elif step.code == "V":
        if step.name in roles:
            op.types[step.name] = (type_for(roles[step.name]),) * len(op.operands[step.name])
    elif step.code == "I":
        op.attrs[step.name] = ArrayAttr((IntAttr(8), IntAttr(64)))
    elif step.code == "W":
        op.attrs[step.name] = EnumAttr(definition.attrs[step.name].cases[0], step.name)
    elif step.code == "A" and step.name not in op.attrs:
        op.attrs[step.name] = attribute_for(definition.attrs[step.name])
    elif step.code == "C":
        op.attrs["value"] = IntAttr(7, parse_type("index"))
        op.result_types = (parse_type("index"),)
    elif step.code == "F":
        op.types["args"] = (type_for(roles["args"]),) * 2
    elif step.code == "R":
        op.regions = (Region([Operation("scf.yield")]),)
