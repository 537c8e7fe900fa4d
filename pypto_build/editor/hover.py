"""Facts about the token at a position, as Markdown."""

from __future__ import annotations

from pypto_build.editor.symbols import Span, Token, spans_of, value_of
from pypto_build.pto.checks import CAPACITY, module_arch
from pypto_build.pto.errors import TypeSyntaxError
from pypto_build.pto.live.module import LiveFunction, LiveModule
from pypto_build.pto.ops import TABLE
from pypto_build.pto.ops.meaning import what_it_does
from pypto_build.pto.ops.spec import AttrDef, OpDef, Role
from pypto_build.pto.resolve import Value
from pypto_build.pto.ssa_names import read_ssa_name
from pypto_build.pto.types import DYNAMIC, MultiTileType, PtrType, TileType, Type, ViewType, parse_type

_ACCESS = {"r": "read", "w": "written", "rw": "read and written", "s": "scratch: overwritten"}
_WORDS = {
    "ssa": "variable",
    "idx": "loop index",
    "iter": "at the beginning of a round: variable",
    "rv": "behind a loop: variable",
    "phi": "behind a condition: variable",
    "tmp": "temporary",
}
_MOST = 8  # tiles that are listed


def hover(live: LiveModule, token: Token) -> str:
    """Markdown; empty where there is nothing to say."""
    text = token.text.strip('"')
    if token.text[:1] == "%":
        return _value(live, token)
    if token.text[:1] == "@":
        function = next((f for f in live.functions if f"@{f.model.name}" == token.text), None)
        return _function(live, function) if function is not None else ""
    if text in TABLE:
        return operation_text(TABLE[text])
    if token.text[:1] == "!":
        try:
            return "\n".join([_code(token.text), *_type_lines(parse_type(" ".join(token.text.split())))])
        except TypeSyntaxError as error:
            return str(error)
    if token.operation is not None and text in TABLE[token.operation.name].attrs:
        return _attribute(TABLE[token.operation.name].attrs[text])
    return ""


def _code(text: str) -> str:
    return f"```mlir\n{text}\n```"


# --- operations ------------------------------------------------------------------------------------------------------


def operation_text(row: OpDef) -> str:
    """Return the description of an operation: its effect, operands and results."""
    does = what_it_does(row)
    lines = [f"**{row.name}**" + (f" — {does}" if does else ""), ""]
    for number, variant in enumerate(row.variants):
        if len(row.variants) > 1:
            lines.append(f"form {number + 1}:")
        lines += [f"- {_role(role)}" for role in variant.roles()]
    lines += [f"- {_attribute(attribute)}" for attribute in row.attrs.values()]
    lines.append("")
    if row.cpp:
        lines.append(f"C++: `{row.cpp}`")
    if row.core:
        lines.append(f"core: {row.core}")
    if row.only:
        lines.append(f"platform: {row.only} only")
    lines += [f"elements on {arch}: {', '.join(sorted(types))}" for arch, types in row.elements.items()]
    if row.refused:
        lines.append(f"not on this machine: {row.refused}")
    return "  \n".join(lines).strip()


def _role(role: Role) -> str:
    where = f" in {' or '.join(role.spaces)}" if role.spaces else ""
    more = ", may be absent" if role.optional else ", any number" if role.many else ""
    layout = {"rows": ", row-major", "plain": ", row-major without fractals"}.get(role.layout, "")
    on = f" on {role.layout_on}" if role.layout_on else ""
    return f"`{role.name}`: {role.kind}{where}{layout}{on}, {_ACCESS[role.access]}{more}"


def _attribute(attribute: AttrDef) -> str:
    kind = " or ".join(attribute.cases) if attribute.cases else attribute.kind
    return f"`{attribute.name}`: {kind}{', required' if attribute.required else ''}"


# --- types -----------------------------------------------------------------------------------------------------------


def _type_lines(type_: Type | None) -> list[str]:
    if isinstance(type_, TileType):
        layout = "plain" if type_.slayout == "none_box" else f"fractals `{type_.slayout}`"
        return [
            f"tile in **{type_.loc}**: {type_.rows} x {type_.cols} {type_.dtype}, {type_.bytes} bytes",
            f"layout: `{type_.blayout}`, {layout}",
            *([f"valid: {type_.v_row} x {type_.v_col}"] if DYNAMIC not in (type_.v_row, type_.v_col) else []),
        ]
    if isinstance(type_, MultiTileType):
        return [f"{type_.count} tiles, each:", *_type_lines(type_.tile)]
    if isinstance(type_, PtrType):
        return ["pointer into global memory (gm)"]
    if isinstance(type_, ViewType):
        return [f"{type_.kind.replace('_', ' ')} of global memory (gm)"]
    return []


# --- values ----------------------------------------------------------------------------------------------------------


def _value(live: LiveModule, token: Token) -> str:
    value, function = value_of(token), token.function
    if value is None or function is None:
        return ""
    lines = [_code(f"{value.name} : {value.type if value.type is not None else 'of a type that is not known'}")]
    lines += _type_lines(value.type)
    if value.constant is not None:
        lines.append(f"constant: **{value.constant}**")
    if (named := read_ssa_name(value.name)) is not None:
        lines.append(f"{_WORDS[named.word]} `{named.variable}` of the program")
    if value.is_argument:
        lines.append(f"argument {value.number} of `@{function.model.name}`")
    spans = spans_of(live, token)
    if spans:
        lines.append(_live_range(spans))
    lines += _bytes(live, function, value)
    if value.op is not None:
        lines += ["", f"by **{value.op.name}** — {what_it_does(TABLE[value.op.name])}"]
    return "  \n".join(lines)


def _live_range(spans: list[Span]) -> str:
    count = len(spans) - 1
    uses = "never used" if not count else f"{count} use{'s' * (count != 1)}"
    return f"live from line {spans[0].line + 1} to {max(span.line for span in spans) + 1}, {uses}"


def _bytes(live: LiveModule, function: LiveFunction, value: Value) -> list[str]:
    """Return the bytes of an allocated tile, and the other tiles on the same bytes, as lines of Markdown."""
    if not isinstance(value.type, TileType) or function.names is None:
        return []
    resolved = function.names.resolved
    start = resolved.address(value)
    if start is None:
        return []
    end = start + value.type.bytes
    capacity = CAPACITY.get(module_arch(live.model, live.platform), {}).get(value.type.loc)
    rows, cols = resolved.extents(value)
    lines = [f"bytes **{start} to {end}** of {value.type.loc}" + (f", which has {capacity}" if capacity else "")]
    if rows is not None and cols is not None and DYNAMIC in (value.type.v_row, value.type.v_col):
        lines.append(f"valid: {rows} x {cols}")
    others = []
    for node in function.every:
        for other in node.defines.values():
            if other is value or not isinstance(other.type, TileType) or other.type.loc != value.type.loc:
                continue
            at = resolved.address(other)
            if at is not None and at < end and start < at + other.type.bytes:
                others.append(f"`{other.name}` (line {node.start + 1}, {at} to {at + other.type.bytes})")
    if others:
        more = [f"{len(others) - _MOST} more"] if len(others) > _MOST else []
        lines.append(f"shares bytes with {', '.join([*others[:_MOST], *more])}")
    return lines


def _function(live: LiveModule, function: LiveFunction) -> str:
    """Return the description of a function, with the bytes of each memory that its tiles take."""
    model = function.model
    arguments = ", ".join(f"{argument.name}: {argument.type}" for argument in model.args)
    lines = [_code(f"func.func @{model.name}({arguments})")]
    if model.kernel_kind:
        lines.append(f"{model.kernel_kind} kernel")
    top: dict[str, int] = {}
    for node in function.every if function.names is not None else ():
        for value in node.defines.values():
            at = function.resolved.address(value)
            if at is not None and isinstance(value.type, TileType):
                top[value.type.loc] = max(top.get(value.type.loc, 0), at + value.type.bytes)
    capacity = CAPACITY.get(module_arch(live.model, live.platform), {})
    lines += [f"{space}: {used} of {capacity.get(space, '?')} bytes" for space, used in top.items()]
    return "  \n".join(lines)
