"""The language server: `pypto-build lsp`, on standard input and output.

`.pto` modules: findings at every key, hover, definition, uses, rename, formatting, colours, outline, completion, and
the way to the generated C++. `kernel_config.py`, orchestration and kernels of an artifact: what lint finds, when they
are opened and saved, and from a kernel's line back to its module.

Keys that come together are answered together; what a key leaves to check, and Python's garbage collection, which
takes as long as a key where a module is large, wait for a pause.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pypto_build import __version__
from pypto_build.editor import generated
from pypto_build.editor.colours import TOKEN_MODIFIERS, TOKEN_TYPES, encoded
from pypto_build.editor.complete import Proposal, proposals
from pypto_build.editor.findings import artifact_of, is_looked_at, lint
from pypto_build.editor.hover import hover
from pypto_build.editor.layout import formatted
from pypto_build.editor.symbols import (
    RenameError,
    Span,
    Token,
    definition_of,
    kernel_files,
    renamed,
    span_of,
    spans_of,
    token_at,
    value_of,
)
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.pto.live.module import LiveFinding, LiveModule

try:
    from lsprotocol import types
    from pygls.exceptions import JsonRpcInvalidParams
    from pygls.lsp.server import LanguageServer
    from pygls.uris import from_fs_path, to_fs_path
except ImportError:
    print("pypto-build lsp: pygls is not installed; pip install 'pypto-build[lsp]'", file=sys.stderr)
    raise SystemExit(2) from None

_SLICE_S = 0.04  # of checking, before a key's findings are shown
_BURST_S = 0.002  # keys that come within it are answered once
_PAUSE_S = 0.5
_LARGE = 300_000  # characters beyond which garbage waits for a pause
_SEVERITY = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}


class Document:
    """An open module: `live` is what its text says, `version` the last text that was looked at."""

    def __init__(self, path: Path, platform: str) -> None:
        self.path = path
        self.live = LiveModule(str(path), platform)
        self.version: int | None = None
        self.colours: list[int] = []
        self.colours_id = 0


class PtoServer(LanguageServer):
    """The open modules, and what is to be done for them."""

    def __init__(self, platform: str = "") -> None:
        super().__init__("pypto-build", __version__)
        self.platform = platform
        self.documents: dict[str, Document] = {}
        self.waiting: dict[str, asyncio.TimerHandle] = {}
        self.pause: asyncio.TimerHandle | None = None
        self.linted: dict[Path, set[str]] = {}  # artifact -> documents that show its findings
        self.tasks: set[asyncio.Task[None]] = set()

    # --- modules -----------------------------------------------------------------------------------------------------

    def changed(self, uri: str) -> None:
        """The text of a document is another one: look at it when no more keys come."""
        if (before := self.waiting.pop(uri, None)) is not None:
            before.cancel()
        self.waiting[uri] = asyncio.get_running_loop().call_later(_BURST_S, self.look, uri)

    def look(self, uri: str) -> None:
        """Say what is wrong with a document now."""
        if (timer := self.waiting.pop(uri, None)) is not None:
            timer.cancel()
        document = self.documents.get(uri)
        if document is None:
            return
        current = self.workspace.get_text_document(uri)
        source = current.source.replace("\r\n", "\n")
        if len(source) > _LARGE:
            gc.disable()
        try:
            document.live.update(source, _SLICE_S)
        except Exception:  # a fault of ours must not end the session: what was known is given up
            logging.exception("%s: looking at it anew", uri)
            document.live = LiveModule(str(document.path), self.platform)
            document.live.update(source)
        document.version = current.version
        self.publish(uri, document)
        self.after_a_pause()

    def document(self, uri: str) -> Document | None:
        """An open module as its text is now."""
        if uri in self.waiting:
            self.look(uri)
        return self.documents.get(uri)

    def publish(self, uri: str, document: Document) -> None:
        diagnostics = [self.diagnostic(document.live, found) for found in document.live.findings]
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=uri, version=document.version, diagnostics=diagnostics)
        )

    def diagnostic(self, live: LiveModule, found: LiveFinding) -> types.Diagnostic:
        text = f"{found.name}: {found.message}" if found.name else found.message
        return types.Diagnostic(
            range=range_of(live, span_of(live, found)),
            message=text,
            severity=types.DiagnosticSeverity.Error,
            source="pypto-build",
            code="pto/syntax" if found.syntax else "pto/check",
        )

    def after_a_pause(self) -> None:
        if self.pause is not None:
            self.pause.cancel()
        self.pause = asyncio.get_running_loop().call_later(_PAUSE_S, self.rest)

    def rest(self) -> None:
        """Nobody types: finish what keys have left."""
        self.pause = None
        for uri, document in self.documents.items():
            if document.live.is_pending:
                document.live.go_on(_SLICE_S)
                self.publish(uri, document)
                if document.live.is_pending:
                    self.pause = asyncio.get_running_loop().call_later(0, self.rest)
                    return
        if not gc.isenabled():
            gc.collect()
            gc.freeze()
            gc.enable()

    # --- artifacts ---------------------------------------------------------------------------------------------------

    def lint_soon(self, uri: str) -> None:
        """Look at the artifact of a document that was opened or saved."""
        path = path_of(uri)
        artifact = artifact_of(path) if path is not None else None
        if path is None or artifact is None or not (path.suffix == ".pto" or is_looked_at(path, artifact)):
            return
        task = asyncio.get_running_loop().create_task(self.lint(artifact, uri))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def lint(self, artifact: Path, opened: str) -> None:
        shown = self.linted.setdefault(artifact, set())
        found: dict[str, list[types.Diagnostic]] = {uri: [] for uri in shown}
        for finding in await lint(artifact, self.platform):
            path = artifact / (finding.path or "kernel_config.py")
            if path.suffix == ".pto":
                continue  # the module itself says it, at every key
            line = max(finding.line - 1, 0)
            related = [
                types.DiagnosticRelatedInformation(
                    location=types.Location(uri_of(artifact / other.path), whole_line(max(other.line - 1, 0))),
                    message=other.message,
                )
                for other in finding.related
            ]
            diagnostic = types.Diagnostic(
                range=whole_line(line),
                message=f"{finding.message}; {finding.hint}" if finding.hint else finding.message,
                severity=_SEVERITY[finding.level],
                source="pypto-build",
                code=finding.rule,
                related_information=related or None,
            )
            found.setdefault(uri_of(path), []).append(diagnostic)
        shown |= found.keys()
        for uri, diagnostics in found.items():
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=diagnostics))
        self.linted[artifact] = {uri for uri, diagnostics in found.items() if diagnostics}


def path_of(uri: str) -> Path | None:
    """The file of a document; None if it has none."""
    name = to_fs_path(uri)
    return Path(name) if name else None


def uri_of(path: Path) -> str:
    """How the protocol names a file."""
    return from_fs_path(str(path)) or ""


def whole_line(line: int) -> types.Range:
    """A line, whatever it holds."""
    return types.Range(types.Position(line, 0), types.Position(line + 1, 0))


def units(text: str, column: int) -> int:
    """A column as the protocol counts it, in UTF-16 units."""
    return column if text.isascii() else len(text[:column].encode("utf-16-le", "surrogatepass")) // 2


def column_of(text: str, character: int) -> int:
    """The column that the protocol's character stands at."""
    if text.isascii():
        return min(character, len(text))
    return len(text.encode("utf-16-le", "surrogatepass")[: character * 2].decode("utf-16-le", "replace"))


def range_of(live: LiveModule, span: Span) -> types.Range:
    """A part of a line, as the protocol says it."""
    text = live.lines[span.line] if span.line < len(live.lines) else ""
    return types.Range(
        types.Position(span.line, units(text, span.column)), types.Position(span.line, units(text, span.end))
    )


def token_of(document: Document, position: types.Position) -> Token | None:
    """What stands at a position."""
    live = document.live
    if position.line >= len(live.lines):
        return None
    return token_at(live, position.line, column_of(live.lines[position.line], position.character))


def build(platform: str = "") -> PtoServer:
    """The server with all that it answers."""
    server = PtoServer(platform)
    _documents(server)
    _questions(server)
    _edits(server)
    _appearance(server)
    return server


def _is_module(uri: str) -> bool:
    return uri.endswith(".pto")


def _documents(server: PtoServer) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        options = params.initialization_options
        named = options.get("platform") if isinstance(options, dict) else None
        if named in PLATFORMS:
            server.platform = named

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        uri = params.text_document.uri
        if _is_module(uri):
            server.documents[uri] = Document(path_of(uri) or Path(uri), server.platform)
            server.look(uri)
        else:
            server.lint_soon(uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        if params.text_document.uri in server.documents:
            server.changed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        server.lint_soon(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        if (timer := server.waiting.pop(uri, None)) is not None:
            timer.cancel()
        if server.documents.pop(uri, None) is not None:
            server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=[]))


def _questions(server: PtoServer) -> None:
    def found(params: Any) -> tuple[Document, Token] | None:
        document = server.document(params.text_document.uri)
        token = token_of(document, params.position) if document is not None else None
        return (document, token) if document is not None and token is not None else None

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def on_hover(params: types.HoverParams) -> types.Hover | None:
        if (here := found(params)) is None:
            return None
        document, token = here
        text = hover(document.live, token)
        content = types.MarkupContent(types.MarkupKind.Markdown, text)
        return types.Hover(content, range_of(document.live, token.span)) if text else None

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def on_definition(params: types.DefinitionParams) -> types.Location | None:
        if (here := found(params)) is None:
            return None
        document, token = here
        span = definition_of(document.live, token)
        return types.Location(params.text_document.uri, range_of(document.live, span)) if span else None

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def on_references(params: types.ReferenceParams) -> list[types.Location]:
        if (here := found(params)) is None:
            return []
        document, token = here
        spans = spans_of(document.live, token)
        shown = spans if params.context.include_declaration else spans[1:]
        return [types.Location(params.text_document.uri, range_of(document.live, span)) for span in shown]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def on_highlight(params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
        if (here := found(params)) is None:
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


def _edits(server: PtoServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    def on_prepare(params: types.PrepareRenameParams) -> types.Range | None:
        document = server.document(params.text_document.uri)
        token = token_of(document, params.position) if document is not None else None
        if document is None or token is None or not (token.text[:1] == "@" or value_of(token) is not None):
            return None
        return range_of(document.live, token.span)

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    def on_rename(params: types.RenameParams) -> types.WorkspaceEdit | None:
        document = server.document(params.text_document.uri)
        token = token_of(document, params.position) if document is not None else None
        if document is None or token is None:
            return None
        try:
            edits = renamed(document.live, token, params.new_name, document.path)
        except RenameError as error:
            raise JsonRpcInvalidParams(str(error)) from None
        changes = [types.TextEdit(range_of(document.live, span), text) for span, text in edits]
        return types.WorkspaceEdit(changes={params.text_document.uri: changes})

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def on_formatting(params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        document = server.document(params.text_document.uri)
        if document is None:
            return []
        live = document.live
        new = formatted("\n".join(live.lines)).split("\n")
        return [
            types.TextEdit(range_of(live, Span(number, 0, len(old))), text)
            for number, (old, text) in enumerate(zip(live.lines, new, strict=True))
            if old != text
        ]


def _appearance(server: PtoServer) -> None:
    legend = types.SemanticTokensLegend(list(TOKEN_TYPES), list(TOKEN_MODIFIERS))

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, legend)
    def on_colours(params: types.SemanticTokensParams) -> types.SemanticTokens:
        document = server.document(params.text_document.uri)
        if document is None:
            return types.SemanticTokens(data=[])
        document.colours = encoded(document.live.lines)
        document.colours_id += 1
        return types.SemanticTokens(data=document.colours, result_id=str(document.colours_id))

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL_DELTA, legend)
    def on_colours_since(
        params: types.SemanticTokensDeltaParams,
    ) -> types.SemanticTokens | types.SemanticTokensDelta:
        document = server.document(params.text_document.uri)
        if document is None:
            return types.SemanticTokens(data=[])
        before, known = document.colours, params.previous_result_id == str(document.colours_id)
        document.colours = now = encoded(document.live.lines)
        document.colours_id += 1
        if not known:
            return types.SemanticTokens(data=now, result_id=str(document.colours_id))
        first, last = _same_ends(before, now)
        edit = types.SemanticTokensEdit(first, len(before) - first - last, now[first : len(now) - last])
        return types.SemanticTokensDelta(edits=[edit], result_id=str(document.colours_id))

    @server.feature(types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, legend)
    def on_colours_of(params: types.SemanticTokensRangeParams) -> types.SemanticTokens:
        document = server.document(params.text_document.uri)
        if document is None:
            return types.SemanticTokens(data=[])
        start, end = params.range.start.line, params.range.end.line + 1
        data = encoded(document.live.lines[start:end])
        if data:
            data[0] += start
        return types.SemanticTokens(data=data)


def _same_ends(before: list[int], now: list[int]) -> tuple[int, int]:
    """How many numbers are the same at the beginning and at the end."""
    common = min(len(before), len(now))
    first = next((at for at in range(common) if before[at] != now[at]), common)
    last = next((at for at in range(common - first) if before[-1 - at] != now[-1 - at]), common - first)
    return first, last


def main(argv: Sequence[str] | None = None) -> int:
    """Serve one editor until it goes; returns the exit status."""
    options = argparse.ArgumentParser(prog="pypto-build lsp", description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("--platform", default="", choices=tuple(PLATFORMS), help="default: what each module names")
    options.add_argument("--stdio", action="store_true", help="as it always is; editors say it")
    given = options.parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    build(given.platform).start_io()
    return 0


if __name__ == "__main__":
    sys.exit(main())
