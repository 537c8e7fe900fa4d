"""Answers to an editor's requests: hover, definition, uses, outline, completion, and navigation between module and
C++.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pypto_build.diagnose.origin import kernel_text, module_files
from pypto_build.editor.costs import cost_text
from pypto_build.editor.documents import Document, PtoServer, column_of, path_of, range_of, types, uri_of, whole_line
from pypto_build.editor.symbols import Span, Token, definition_of, kernel_files, spans_of, value_of
from pypto_build.pto.checks import CAPACITY, module_arch
from pypto_build.pto.errors import TypeSyntaxError
from pypto_build.pto.live.module import LiveFunction, LiveModule
from pypto_build.pto.live.pairs import pair
from pypto_build.pto.live.values import Node
from pypto_build.pto.ops import TABLE
from pypto_build.pto.ops.meaning import what_it_does
from pypto_build.pto.ops.spec import AttrDef, OpDef, Role
from pypto_build.pto.resolve import Value
from pypto_build.pto.ssa_names import read_ssa_name
from pypto_build.pto.types import DYNAMIC, MultiTileType, PtrType, TileType, Type, ViewType, parse_type

# Completions at a position of a module: operations, values in scope, functions, types, attributes.

_WORD = re.compile(r"[%@!#]?[\w$.\-]*\Z")
_NAMED = re.compile(r'"?([A-Za-z_]\w*\.[\w.]+)"?')


@dataclass(frozen=True)
class Proposal:
    """A completion: a text that replaces a part of a line; `kind` is value, operation, function, type or attribute."""

    text: str
    kind: str
    detail: str
    span: Span


def proposals(live: LiveModule, line: int, column: int) -> list[Proposal]:
    """Return the completions of the word that ends at a column."""
    text = live.lines[line][:column]
    match = _WORD.search(text)
    word = match[0] if match else ""
    span = Span(line, column - len(word), column)
    function = next((f for f in live.functions if f.outline.start <= line < f.outline.end), None)
    if word[:1] == "%":
        rows = _values(function, line)
    elif word[:1] == "@":
        rows = ((f"@{f.model.name}", "function", f.model.kernel_kind) for f in live.functions if f.model.name)
    elif word[:1] == "!":
        types = {t: "" for row in live.lines for t in re.findall(r"![\w.]+(?:<[^<>]*>)?", row)}
        rows = ((name, "type", "") for name in types)
    elif "{" in text.rsplit("}", 1)[-1] and (named := _NAMED.search(text)) and named[1] in TABLE:
        rows = ((a.name, "attribute", " | ".join(a.cases) or a.kind) for a in TABLE[named[1]].attrs.values())
    else:
        rows = ((name, "operation", what_it_does(row)) for name, row in TABLE.items())
    return [Proposal(name, kind, detail, span) for name, kind, detail in rows if name.startswith(word)]


def _values(function: LiveFunction | None, line: int) -> Iterator[tuple[str, str, str]]:
    """Yield the values that are in scope on a line."""
    if function is None or function.names is None:
        return
    for value in function.resolved.arguments:
        yield value.name, "value", str(value.type)
    yield from _of_region(function.nodes, line)


def _of_region(nodes: list[Node], line: int) -> Iterator[tuple[str, str, str]]:
    for node in nodes:
        if node.start >= line:
            return
        last = max((inner.start for region in node.regions for inner in region), default=node.start)
        if node.is_block and line <= max(last, node.start + node.rows[-1]):
            for arguments, region in zip(node.arguments, node.regions, strict=False):
                if region and region[0].start <= line:
                    yield from ((name, "value", str(value.type)) for name, value in arguments.items())
                    yield from _of_region(region, line)
        else:
            yield from ((name, "value", str(value.type)) for name, value in node.defines.items())


# Facts about the token at a position, as Markdown.

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
    """Return the hover text as Markdown; empty if there is none."""
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


def answer_questions(server: PtoServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def on_hover(params: types.HoverParams) -> types.Hover | None:
        if (here := server.token_in(params)) is None:
            return None
        document, token = here
        parts = [hover(document.live, token)]
        if token.function is not None and token.function.names is not None:
            parts.append(cost_text(document.path, token.function, token.span.line))
        text = "\n\n".join(filter(None, parts))
        content = types.MarkupContent(types.MarkupKind.Markdown, text)
        return types.Hover(content, range_of(document.live, token.span)) if text else None

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def on_definition(params: types.DefinitionParams) -> types.Location | None:
        if (here := server.token_in(params)) is None:
            return None
        document, token = here
        span = definition_of(document.live, token)
        return types.Location(params.text_document.uri, range_of(document.live, span)) if span else None

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def on_references(params: types.ReferenceParams) -> list[types.Location]:
        if (here := server.token_in(params)) is None:
            return []
        document, token = here
        spans = spans_of(document.live, token)
        shown = spans if params.context.include_declaration else spans[1:]
        return [types.Location(params.text_document.uri, range_of(document.live, span)) for span in shown]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def on_highlight(params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
        if (here := server.token_in(params)) is None:
            return []
        document, token = here
        return [types.DocumentHighlight(range_of(document.live, span)) for span in spans_of(document.live, token)]

    @server.feature(types.TEXT_DOCUMENT_IMPLEMENTATION)
    def on_implementation(params: types.ImplementationParams) -> list[types.Location]:
        document = server.document(params.text_document.uri)
        if document is None:
            return []
        return _to_cpp(document, params.position.line)

    @server.feature(types.TEXT_DOCUMENT_DECLARATION)
    def on_declaration(params: types.DeclarationParams) -> list[types.Location]:
        path = path_of(params.text_document.uri)
        text = server.workspace.get_text_document(params.text_document.uri).source
        return _to_module(server, path, text, params.position.line) if path is not None else []

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def on_symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        document = server.document(params.text_document.uri)
        return _symbols(document.live) if document is not None else []

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=["%", ".", "@", "!"]))
    def on_completion(params: types.CompletionParams) -> types.CompletionList:
        document = server.document(params.text_document.uri)
        if document is None or params.position.line >= len(document.live.lines):
            return types.CompletionList(is_incomplete=False, items=[])
        line = document.live.lines[params.position.line]
        column = column_of(line, params.position.character)
        items = [_item(document.live, each) for each in proposals(document.live, params.position.line, column)]
        return types.CompletionList(is_incomplete=False, items=items)


_KINDS = {
    "value": types.CompletionItemKind.Variable,
    "operation": types.CompletionItemKind.Function,
    "function": types.CompletionItemKind.Function,
    "type": types.CompletionItemKind.Class,
    "attribute": types.CompletionItemKind.Property,
}


def _item(live: LiveModule, each: Proposal) -> types.CompletionItem:
    return types.CompletionItem(
        label=each.text,
        kind=_KINDS[each.kind],
        detail=each.detail,
        text_edit=types.TextEdit(range_of(live, each.span), each.text),
    )


def _to_cpp(document: Document, line: int) -> list[types.Location]:
    """Return the positions in the C++ of a line, in the kernels of its function."""
    live = document.live
    function = next((f for f in live.functions if f.outline.start <= line < f.outline.end), None)
    if function is None or function.names is None:
        return []
    locations = []
    for file in kernel_files(document.path, function.model.name):
        at = pair(function, kernel_text(file)).in_cpp(line)
        if at is not None:
            locations.append(types.Location(uri_of(file), whole_line(at)))
    return locations


def _to_module(server: PtoServer, kernel: Path, text: str, line: int) -> list[types.Location]:
    """Return the line of a module that a line of a kernel's body was generated from."""
    locations = []
    for file in module_files(kernel):
        document = server.document(uri_of(file))
        live = document.live if document is not None else LiveModule(str(file), server.platform)
        if document is None:
            live.update(kernel_text(file))
        for function in live.functions:
            if function.model.name == kernel.stem and function.names is not None:
                at = pair(function, text).in_module(line)
                if at is not None:
                    locations.append(types.Location(uri_of(file), whole_line(at)))
    return locations


def _symbols(live: LiveModule) -> list[types.DocumentSymbol]:
    """Return the functions as symbols of the outline."""
    symbols = []
    for function in live.functions:
        if function.whole or not function.model.name:
            continue
        first, last = function.outline.start, max(function.outline.end - 1, function.outline.start)
        whole = types.Range(types.Position(first, 0), types.Position(last, len(live.lines[last])))
        head = range_of(live, Span(first, 0, len(live.lines[first])))
        kind = types.SymbolKind.Function
        name = f"@{function.model.name}"
        symbols.append(types.DocumentSymbol(name, kind, whole, head, detail=function.model.kernel_kind or None))
    return symbols
