"""Answers to an editor's requests: hover, definition, uses, outline, completion, and the way to the C++ and back."""

from __future__ import annotations

from pathlib import Path

from pypto_build.editor import generated
from pypto_build.editor.complete import Proposal, proposals
from pypto_build.editor.documents import Document, PtoServer
from pypto_build.editor.hover import hover
from pypto_build.editor.protocol import column_of, path_of, range_of, types, uri_of, whole_line
from pypto_build.editor.symbols import Span, definition_of, kernel_files, spans_of
from pypto_build.pto.live.module import LiveModule


def answer_questions(server: PtoServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def on_hover(params: types.HoverParams) -> types.Hover | None:
        if (here := server.token_in(params)) is None:
            return None
        document, token = here
        text = hover(document.live, token)
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
    """The C++ of a line, in the kernels of its function."""
    live = document.live
    function = next((f for f in live.functions if f.outline.start <= line < f.outline.end), None)
    if function is None or function.names is None:
        return []
    locations = []
    for file in kernel_files(document.path, function.model.name):
        at = generated.pair(function, generated.wrapper_text(file)).in_cpp(line)
        if at is not None:
            locations.append(types.Location(uri_of(file), whole_line(at)))
    return locations


def _to_module(server: PtoServer, kernel: Path, text: str, line: int) -> list[types.Location]:
    """The line of a module that a line of a kernel's body was generated from."""
    locations = []
    for file in generated.module_files(kernel):
        document = server.document(uri_of(file))
        live = document.live if document is not None else LiveModule(str(file), server.platform)
        if document is None:
            live.update(generated.wrapper_text(file))
        for function in live.functions:
            if function.model.name == kernel.stem and function.names is not None:
                at = generated.pair(function, text).in_module(line)
                if at is not None:
                    locations.append(types.Location(uri_of(file), whole_line(at)))
    return locations


def _symbols(live: LiveModule) -> list[types.DocumentSymbol]:
    """The functions."""
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
