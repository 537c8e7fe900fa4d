"""The language server as an editor meets it: a client of its own, over standard input and output."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

types = pytest.importorskip("lsprotocol.types")
from pygls.exceptions import JsonRpcException  # noqa: E402
from pygls.lsp.client import LanguageClient  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
ARTIFACT = ROOT / "examples" / "artifacts" / "_jit_vector_dag"
TIMEOUT_S = 60


class Client(LanguageClient):
    """An editor: it keeps what the server says is wrong with each document."""

    def __init__(self) -> None:
        super().__init__("test", "1")
        self.diagnostics: dict[str, list[Any]] = {}
        self.told = asyncio.Event()

        def published(params: Any) -> None:
            self.diagnostics[params.uri] = params.diagnostics
            self.told.set()

        self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(published)

    async def until(self, uri: str, holds: Callable[[list[str]], bool]) -> list[str]:
        """The messages of a document, once they are such."""
        while not (uri in self.diagnostics and holds([d.message for d in self.diagnostics[uri]])):
            self.told.clear()
            await asyncio.wait_for(self.told.wait(), TIMEOUT_S)
        return [diagnostic.message for diagnostic in self.diagnostics[uri]]

    def open(self, path: Path, language: str = "pto") -> str:
        item = types.TextDocumentItem(path.as_uri(), language, 1, path.read_text(encoding="utf-8"))
        self.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return path.as_uri()

    def type(self, uri: str, version: int, line: int, column: int, end: int, text: str) -> None:
        span = types.Range(types.Position(line, column), types.Position(line, end))
        change = types.TextDocumentContentChangePartial(range=span, text=text)
        named = types.VersionedTextDocumentIdentifier(version, uri)
        self.text_document_did_change(types.DidChangeTextDocumentParams(named, [change]))


@asynccontextmanager
async def session() -> AsyncIterator[Any]:
    client: Any = Client()
    await client.start_io(sys.executable, "-m", "pypto_build.editor.server")
    await client.initialize_async(types.InitializeParams(capabilities=types.ClientCapabilities()))
    client.initialized(types.InitializedParams())
    try:
        yield client
    finally:
        await client.shutdown_async(None)
        client.exit(None)
        await client.stop()


def run(conversation: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        async with session() as client:
            await conversation(client)

    asyncio.run(whole())


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ARTIFACT, tmp_path / "_jit_vector_dag"))


def at(uri: str, path: Path, line: int, word: str) -> dict[str, Any]:
    column = path.read_text(encoding="utf-8").splitlines()[line].index(word)
    return {"text_document": types.TextDocumentIdentifier(uri), "position": types.Position(line, column + 1)}


def test_a_session_with_a_module(artifact: Path) -> None:
    path = artifact / "ptoas" / "kernel_add.pto"
    lines = path.read_text(encoding="utf-8").splitlines()
    row = next(number for number, line in enumerate(lines) if "pto.tadd" in line)

    async def conversation(client: Any) -> None:
        uri = client.open(path)
        assert await client.until(uri, lambda messages: True) == []

        column = lines[row].index("%tb")
        client.type(uri, 2, row, column, column + 3, "%tc")
        messages = await client.until(uri, bool)
        assert messages == ["pto.tadd: %tc__ssa_v0 is used but not defined before"]
        location = client.diagnostics[uri][0].range
        assert lines[location.start.line][location.start.character :].startswith("%tb__ssa_v0")
        client.type(uri, 3, row, column, column + 3, "%tb")
        assert await client.until(uri, lambda messages: not messages) == []

        shown = await client.text_document_hover_async(types.HoverParams(**at(uri, path, row, "%ta__ssa_v0")))
        text = shown.contents.value
        assert "tile in **vec**: 128 x 128 f32, 65536 bytes" in text
        assert "bytes **0 to 65536** of vec" in text
        assert "variable `ta` of the program" in text
        assert "live from line 11 to 18, 2 uses" in text
        assert "shares bytes with `%t__ssa_v0` (line 17" in text
        shown = await client.text_document_hover_async(types.HoverParams(**at(uri, path, row, "pto.tadd")))
        assert "dst = src0 + src1" in shown.contents.value and "C++: `TADD`" in shown.contents.value

        where = await client.text_document_definition_async(types.DefinitionParams(**at(uri, path, row, "%ta__ssa_v0")))
        assert where.range.start.line == 10
        uses = await client.text_document_references_async(
            types.ReferenceParams(types.ReferenceContext(True), **at(uri, path, row, "%ta__ssa_v0"))
        )
        assert [use.range.start.line for use in uses] == [10, 12, row]

        edit = await client.text_document_rename_async(
            types.RenameParams(new_name="left", **at(uri, path, row, "%ta__ssa_v0"))
        )
        assert [change.new_text for change in edit.changes[uri]] == ["%left"] * 3
        with pytest.raises(JsonRpcException, match="the name %t__ssa_v0 is already used in @kernel_add"):
            await client.text_document_rename_async(
                types.RenameParams(new_name="%t__ssa_v0", **at(uri, path, row, "%ta__ssa_v0"))
            )
        with pytest.raises(JsonRpcException, match="@kernel_add is a kernel, which wrapper, manifest and"):
            await client.text_document_rename_async(types.RenameParams(new_name="@add", **at(uri, path, 1, "@kernel")))

        document = types.TextDocumentIdentifier(uri)
        symbols = await client.text_document_document_symbol_async(types.DocumentSymbolParams(document))
        assert [(symbol.name, symbol.detail) for symbol in symbols] == [("@kernel_add", "vector")]

        options = types.FormattingOptions(2, True)
        client.type(uri, 4, row, 0, 2, "\t   ")
        edits = await client.text_document_formatting_async(types.DocumentFormattingParams(document, options))
        assert [change.new_text for change in edits] == [lines[row]]

        client.type(uri, 5, row, 0, 4, "  pto.ta\n  ")
        items = await client.text_document_completion_async(
            types.CompletionParams(document, types.Position(row, len("  pto.ta")))
        )
        assert {"pto.tadd", "pto.tabs"} <= {item.label for item in items.items}

    run(conversation)


def test_from_a_module_to_its_kernel_and_back(artifact: Path) -> None:
    path, kernel = artifact / "ptoas" / "kernel_add.pto", artifact / "kernels" / "aiv" / "kernel_add.cpp"
    cpp = kernel.read_text(encoding="utf-8").splitlines()
    row = next(n for n, line in enumerate(path.read_text(encoding="utf-8").splitlines()) if "pto.tadd" in line)
    call = next(number for number, line in enumerate(cpp) if "TADD(" in line)

    async def conversation(client: Any) -> None:
        uri = client.open(path)
        messages = await client.text_document_implementation_async(
            types.ImplementationParams(**at(uri, path, row, "pto.tadd"))
        )
        assert [(location.uri, location.range.start.line) for location in messages] == [(kernel.as_uri(), call)]
        other = client.open(kernel, "cpp")
        back = await client.text_document_declaration_async(
            types.DeclarationParams(types.TextDocumentIdentifier(other), types.Position(call, 4))
        )
        assert [(location.uri, location.range.start.line) for location in back] == [(uri, row)]

    run(conversation)


def test_what_lint_finds(artifact: Path) -> None:
    manifest = artifact / "kernel_config.py"
    orchestration = artifact / "orchestration" / "vector_dag.cpp"
    text = orchestration.read_text(encoding="utf-8")
    broken = text.replace("rt_submit_aiv_task(0,", "rt_submit_aiv_task(7,", 1)
    assert broken != text
    orchestration.write_text(broken, encoding="utf-8")

    async def conversation(client: Any) -> None:
        client.open(manifest, "python")
        uri = orchestration.as_uri()
        messages = await client.until(uri, bool)
        assert any("7" in message for message in messages)
        orchestration.write_text(text, encoding="utf-8")
        client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(uri)))
        assert await client.until(uri, lambda messages: not messages) == []

    run(conversation)


def test_colours_are_those_of_the_line_and_come_as_changes(artifact: Path) -> None:
    path = artifact / "ptoas" / "kernel_add.pto"

    async def conversation(client: Any) -> None:
        uri = client.open(path)
        document = types.TextDocumentIdentifier(uri)
        whole = await client.text_document_semantic_tokens_full_async(types.SemanticTokensParams(document))
        assert len(whole.data) % 5 == 0 and len(whole.data) > 500
        client.type(uri, 2, 2, 0, 0, "// ü a comment\n")
        delta = await client.text_document_semantic_tokens_full_delta_async(
            types.SemanticTokensDeltaParams(document, whole.result_id)
        )
        (edit,) = delta.edits
        changed = [*whole.data[: edit.start], *edit.data, *whole.data[edit.start + edit.delete_count :]]
        anew = await client.text_document_semantic_tokens_full_async(types.SemanticTokensParams(document))
        assert list(anew.data) == changed

    run(conversation)


def test_keys_of_all_kinds_do_not_end_it(artifact: Path) -> None:
    path = artifact / "ptoas" / "kernel_mul.pto"

    async def conversation(client: Any) -> None:
        uri = client.open(path)
        for version, text in enumerate(("{", "}}", '"', "%", "\n\n", "é𝄞", "func.func @", "//"), 2):
            client.type(uri, version, 3, 0, 0, text)
            for column in (0, 1, 5, 4000):
                position = types.Position(3, column)
                await client.text_document_hover_async(types.HoverParams(types.TextDocumentIdentifier(uri), position))
        assert client.diagnostics[uri]

    run(conversation)
