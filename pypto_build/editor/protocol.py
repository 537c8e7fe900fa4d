"""The language server's protocol, as pygls has it: files, lines and columns in its words."""

from __future__ import annotations

import sys
from pathlib import Path

from pypto_build.editor.symbols import Span
from pypto_build.pto.live.module import LiveModule

try:
    from lsprotocol import types
    from pygls.exceptions import JsonRpcInvalidParams
    from pygls.lsp.server import LanguageServer
    from pygls.uris import from_fs_path, to_fs_path
except ImportError:
    print("pypto-build lsp: pygls is not installed; pip install 'pypto-build[lsp]'", file=sys.stderr)
    raise SystemExit(2) from None

__all__ = [
    "JsonRpcInvalidParams", "LanguageServer", "column_of", "path_of", "range_of", "types", "uri_of", "whole_line",
]  # fmt: skip


def path_of(uri: str) -> Path | None:
    """The file of a document; None if it has none."""
    name = to_fs_path(uri)
    return Path(name) if name else None


def uri_of(path: Path) -> str:
    """Return the protocol's name for a file."""
    return from_fs_path(str(path)) or ""


def whole_line(line: int) -> types.Range:
    """Return the range of a whole line."""
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
