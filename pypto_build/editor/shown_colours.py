"""Answers to an editor's requests for colours: all of them, the changes since the last answer, or a range."""

from __future__ import annotations

from pypto_build.editor.colours import TOKEN_MODIFIERS, TOKEN_TYPES, encoded
from pypto_build.editor.documents import PtoServer
from pypto_build.editor.protocol import types


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
    """Return how many numbers agree at the beginning and at the end."""
    common = min(len(before), len(now))
    first = next((at for at in range(common) if before[at] != now[at]), common)
    last = next((at for at in range(common - first) if before[-1 - at] != now[-1 - at]), common - first)
    return first, last
