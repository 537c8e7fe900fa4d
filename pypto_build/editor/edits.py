"""Edits that an editor asks for: another name, one layout."""

from __future__ import annotations

from pypto_build.editor.documents import PtoServer
from pypto_build.editor.layout import formatted
from pypto_build.editor.protocol import JsonRpcInvalidParams, range_of, types
from pypto_build.editor.symbols import RenameError, Span, renamed, value_of


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
