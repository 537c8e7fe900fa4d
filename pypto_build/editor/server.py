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
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, cast

from pypto_build.editor.documents import Document, PtoServer
from pypto_build.editor.edits import answer_edits
from pypto_build.editor.input import BoundedInput
from pypto_build.editor.protocol import path_of, types
from pypto_build.editor.questions import answer_questions
from pypto_build.editor.shown_colours import answer_colours
from pypto_build.facts.platforms import PLATFORMS


def build(platform: str = "") -> PtoServer:
    """The server with all that it answers."""
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


def main(argv: Sequence[str] | None = None) -> int:
    """Serve one editor until it goes; returns the exit status."""
    options = argparse.ArgumentParser(prog="pypto-build lsp", description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("--platform", default="", choices=tuple(PLATFORMS), help="default: what each module names")
    options.add_argument("--stdio", action="store_true", help="as it always is; editors say it")
    arguments = options.parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    build(arguments.platform).start_io(cast(BinaryIO, BoundedInput(sys.stdin.buffer)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
