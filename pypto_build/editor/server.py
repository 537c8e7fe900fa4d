"""The language server: `pypto-build lsp`, on standard input and output.

`.pto` modules: findings at every key, hover, definition, uses, rename, formatting, colours, outline, completion, and
the way to the generated C++. `kernel_config.py`, orchestration and kernels of an artifact: what lint finds, when they
are opened and saved, and from a kernel's line back to its module.

One answer serves keys that come together. The checks that a key leaves wait for a pause. So does Python's garbage
collection, which takes as long as a key in a large module.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, cast

from pypto_build.editor.documents import Document, JsonRpcInvalidParams, PtoServer, path_of, range_of, types
from pypto_build.editor.questions import answer_questions
from pypto_build.editor.symbols import RenameError, Span, renamed, value_of
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.pto.live.outline import LineKind, facts_of
from pypto_build.pto.model import TOKEN, tokenize
from pypto_build.pto.ops import TABLE

# Kinds of a module's tokens, for colours; each distinct line is scanned once.


#: The protocol's names, by the numbers that `Colour` uses.
TOKEN_TYPES = (
    "comment", "string", "number", "keyword", "type", "function", "parameter", "variable", "property", "enumMember",
    "macro",
)  # fmt: skip
TOKEN_MODIFIERS = ("declaration",)
_NUMBER_OF = {name: number for number, name in enumerate(TOKEN_TYPES)}
Colour = tuple[int, int, int, int]  # column, length, type, modifiers

_ARGUMENT = re.compile(r"%arg\d+\Z")
_SCALAR = re.compile(r"(?:[su]?i\d+|b?f\d+\w*|index|none)\Z")
_COMMENT = re.compile(r'(?:[^"/]|"(?:[^"\\]|\\.)*"|/(?!/))*(//.*)')


@lru_cache(maxsize=1 << 16)
def colours_of(line: str) -> tuple[Colour, ...]:
    """Return the coloured tokens of a line, columns in UTF-16 units."""
    comment = _COMMENT.match(line) if "//" in line else None
    end = comment.start(1) if comment else len(line)
    tokens = [(match[1], match.start(1)) for match in TOKEN.finditer(line[:end]) if match[1]]
    colours = []
    for number, (text, start) in enumerate(tokens):
        following = tokens[number + 1][0] if number + 1 < len(tokens) else ""
        kind, modifiers = _kind(text, following)
        if kind:
            colours.append((start, len(text), _NUMBER_OF[kind], modifiers))
    if comment:
        colours.append((end, len(line) - end, _NUMBER_OF["comment"], 0))
    if not line.isascii():
        colours = [(_units(line[:a]), _units(line[a : a + n]), kind, more) for a, n, kind, more in colours]
    return tuple(colours)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _kind(text: str, following: str) -> tuple[str, int]:
    """Return type and modifiers of a token; an empty type for punctuation."""
    first = text[0]
    if first == "%":
        return ("parameter" if _ARGUMENT.match(text) else "variable"), int(following == "=")
    if first == "!":
        return "type", 0
    if first == "#":
        return "enumMember", 0
    if first == "@":
        return "function", 0
    if first == '"':
        return "string", 0
    if first.isdigit() or (first == "-" and len(text) > 1 and text[1].isdigit()):
        return "number", 0
    if text in TABLE:
        return ("keyword" if text.startswith(("scf.", "func.")) or "." not in text else "macro"), 0
    if _SCALAR.match(text):
        return "type", 0
    if first.isalpha():
        return ("property" if following == "=" else "keyword"), 0
    return "", 0


def encoded(lines: Iterable[str]) -> list[int]:
    """Return the protocol's encoding, five numbers a token: line and column relative to the previous token, length,
    type, modifiers.
    """
    data: list[int] = []
    skipped = 0
    for line in lines:
        before = 0
        for column, length, kind, modifiers in colours_of(line):
            data += (skipped, column - before, length, kind, modifiers)
            before, skipped = column, 0
        skipped += 1
    return data


# Answers to an editor's requests for colours: all of them, the changes since the last answer, or a range.


def answer_colours(server: PtoServer) -> None:
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
        before, is_current = document.colours, params.previous_result_id == str(document.colours_id)
        document.colours = now = encoded(document.live.lines)
        document.colours_id += 1
        if not is_current:
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
    """Return how many numbers are equal at the beginning and at the end of both lists."""
    common = min(len(before), len(now))
    first = next((at for at in range(common) if before[at] != now[at]), common)
    last = next((at for at in range(common - first) if before[-1 - at] != now[-1 - at]), common - first)
    return first, last


#: Bytes of a message, at most.
LARGEST = 64 << 20
# Reads what an editor sends, without messages that no memory holds.

# Bytes of a line, which a header is; more than that are several.
_LINE = 1 << 20
_HEADER = re.compile(rb"Content-Length: *(\d+)\r\n\Z")
_DIGITS = 18  # no size has more


class BoundedInput:
    """A stream of messages without those of more than ``LARGEST`` bytes, which are skipped."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._leaves_out = stream, False

    def readline(self) -> bytes:
        """Return the next header line of a message; empty at the end."""
        while line := self._stream.readline(_LINE):
            header = _HEADER.search(line)
            if header and (len(header[1]) > _DIGITS or int(header[1]) > LARGEST):
                size = header[1][:_DIGITS].decode()
                print(
                    f"pypto-build lsp: a message of {size} bytes is skipped: the limit is {LARGEST} bytes",
                    file=sys.stderr,
                )
                self._leaves_out = True
            elif not self._leaves_out:
                if header or not line.strip():  # other headers tell nothing, and may have no end
                    return line
            elif header:  # behind what was left of the other message
                self._leaves_out = False
                return header[0]
        return b""

    def read(self, size: int) -> bytes:
        """Return a message's bytes."""
        return self._stream.read(size)


# Formatting a module: indentation and blanks as PyPTO writes them. Comments, and which lines there are, stay.

_PARTS = re.compile(r'"(?:[^"\\\n]|\\.)*"|//.*|[ \t]+|[^"/ \t]+|.')


def formatted(text: str) -> str:
    """Return the text in the standard layout: the same tokens on the same lines. A text whose braces do not match is
    unchanged.
    """
    lines = text.split("\n")
    new, depth, functions = [], 0, []
    for line in lines:
        facts = facts_of(line)
        if depth + facts.low < 0:
            return text
        if facts.kind is LineKind.FUNCTION:
            functions.append(depth)
        inside = depth + facts.low if facts.kind is LineKind.CLOSER else depth
        levels = inside - sum(1 for at in functions if at < inside)  # a body stands no deeper than its function
        if facts.kind is LineKind.LABEL:
            levels -= 1
        if facts.kind is LineKind.OTHER and not line.strip().startswith(("module", "#")):
            levels += 2
        depth += facts.delta
        while functions and depth <= functions[-1] and facts.delta < 0:
            functions.pop()
        new.append("  " * levels + _spaced(line.strip()) if line.strip() else "")
    result = "\n".join(new)
    return (
        result if depth == 0 and tokenize(result) == tokenize(text) and _comments(result) == _comments(text) else text
    )


def _spaced(line: str) -> str:
    """Return the line with single blanks, outside of strings and comments."""
    if "  " not in line and "\t" not in line:
        return line
    return "".join(" " if part.isspace() else part for part in _PARTS.findall(line))


def _comments(text: str) -> int:
    return sum(token[0].count("//") for token in TOKEN.finditer(text) if "//" in token[0])


# Edits that an editor asks for: another name, one layout.


def answer_edits(server: PtoServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    def on_prepare(params: types.PrepareRenameParams) -> types.Range | None:
        if (here := server.token_in(params)) is None:
            return None
        document, token = here
        can_be_renamed = token.text[:1] == "@" or value_of(token) is not None
        return range_of(document.live, token.span) if can_be_renamed else None

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    def on_rename(params: types.RenameParams) -> types.WorkspaceEdit | None:
        server.finish(params.text_document.uri)  # all uses, also those that are left for a pause
        if (here := server.token_in(params)) is None:
            return None
        document, token = here
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


def build(platform: str = "") -> PtoServer:
    """Return the language server with all its request handlers."""
    server = PtoServer(platform)
    _documents(server)
    answer_questions(server)
    answer_edits(server)
    answer_colours(server)
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
            server.check_now(uri)
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


class _OneLine(logging.Formatter):
    """Formats an error, such as a message that is not JSON, as one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the attempted operation and the exception."""
        text = record.getMessage().partition("\n")[0]
        error = record.exc_info and record.exc_info[1]
        text = f"pypto-build lsp: {text}{f': {error!r}' if error else ''}"
        return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve one editor until it disconnects; return the exit status."""
    options = argparse.ArgumentParser(prog="pypto-build lsp", description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("--platform", default="", choices=tuple(PLATFORMS), help="default: what each module names")
    options.add_argument("--stdio", action="store_true", help="as it always is; editors say it")
    arguments = options.parse_args(argv)
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(_OneLine())
    logging.basicConfig(handlers=[shown], level=logging.WARNING)
    build(arguments.platform).start_io(cast(BinaryIO, BoundedInput(sys.stdin.buffer)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
