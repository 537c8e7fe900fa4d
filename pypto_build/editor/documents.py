"""The open modules of an editor and their checks: findings at every key, slower work in a pause."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import tempfile
from pathlib import Path
from typing import Protocol

from pypto_build import __version__
from pypto_build.artifact import ArtifactError
from pypto_build.artifact.manifest import MANIFEST_NAME
from pypto_build.diagnose.findings import Finding, read_report
from pypto_build.editor.symbols import Span, Token, span_of, token_at
from pypto_build.pto.live.module import LiveFinding, LiveModule
from pypto_build.toolchain.python import own_environment, own_tool

# The language server's protocol, as pygls has it: files, lines and columns in its words.

try:
    from lsprotocol import types
    from pygls.exceptions import JsonRpcInvalidParams
    from pygls.lsp.server import LanguageServer
    from pygls.uris import from_fs_path, to_fs_path
except ImportError:
    print("pypto-build lsp: pygls is not installed; run pip install 'pypto-build[lsp]'", file=sys.stderr)
    raise SystemExit(2) from None

__all__ = [
    "JsonRpcInvalidParams", "LanguageServer", "column_of", "path_of", "range_of", "types", "uri_of", "whole_line",
]  # fmt: skip


def path_of(uri: str) -> Path | None:
    """Return the file of a document; None for a document that is not a file."""
    name = to_fs_path(uri)
    return Path(name) if name else None


def uri_of(path: Path) -> str:
    """Return the URI of a file."""
    return from_fs_path(str(path)) or ""


def whole_line(line: int) -> types.Range:
    """Return the range of a whole line."""
    return types.Range(types.Position(line, 0), types.Position(line + 1, 0))


def units(text: str, column: int) -> int:
    """Convert a column to the protocol's UTF-16 units."""
    return column if text.isascii() else len(text[:column].encode("utf-16-le", "surrogatepass")) // 2


def column_of(text: str, character: int) -> int:
    """Convert the protocol's character offset, in UTF-16 units, to a column."""
    if text.isascii():
        return min(character, len(text))
    return len(text.encode("utf-16-le", "surrogatepass")[: character * 2].decode("utf-16-le", "replace"))


def range_of(live: LiveModule, span: Span) -> types.Range:
    """Return a span as a range of the protocol."""
    text = live.lines[span.line] if span.line < len(live.lines) else ""
    return types.Range(
        types.Position(span.line, units(text, span.column)), types.Position(span.line, units(text, span.end))
    )


# Lint's findings in an artifact, from a separate command: no file it reads can end the server.

_TIMEOUT_S = 60.0


def artifact_of(path: Path) -> Path | None:
    """Return the artifact that contains a file."""
    return next((parent for parent in path.parents if (parent / MANIFEST_NAME).is_file()), None)


def is_looked_at(path: Path, artifact: Path) -> bool:
    """Return whether lint reads the file."""
    name = path.relative_to(artifact)
    return name.name == MANIFEST_NAME or name.parts[0] in ("orchestration", "kernels")


async def lint(artifact: Path, platform: str) -> list[Finding]:
    """Return the findings of lint; empty if lint fails."""
    with tempfile.TemporaryDirectory(prefix="pypto-build-") as directory:
        file = Path(directory, "lint.json")
        words = [str(artifact), *(["--platform", platform] if platform else []), "--json", str(file)]
        command = [*own_tool("pypto_build.diagnose.lint"), *words]
        quiet = asyncio.subprocess.DEVNULL
        child = await asyncio.create_subprocess_exec(
            *command, stdin=quiet, stdout=quiet, stderr=quiet, env=own_environment()
        )
        try:
            await asyncio.wait_for(child.wait(), _TIMEOUT_S)
        except (TimeoutError, asyncio.TimeoutError):
            child.kill()
            await child.wait()
        try:
            return list(read_report(file).findings)
        except (ArtifactError, OSError):
            return []


_SLICE_S = 0.02  # of checking, before a key's findings are shown
_BURST_S = 0.002  # keys that come within it are answered once
_PAUSE_S = 0.5
_LARGE = 300_000  # characters beyond which garbage waits for a pause
_SEVERITY = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}


class AtPosition(Protocol):
    """A request about the token at a position."""

    @property
    def text_document(self) -> types.TextDocumentIdentifier: ...

    @property
    def position(self) -> types.Position: ...


class Document:
    """An open module: `live` is its current text, `version` the version of the last checked text."""

    def __init__(self, path: Path, platform: str) -> None:
        self.path = path
        self.live = LiveModule(str(path), platform)
        self.version: int | None = None
        self.colours: list[int] = []
        self.colours_id = 0


class PtoServer(LanguageServer):
    """The language server's open modules, and their checks."""

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
        """Record a changed document; check it when no further keys arrive."""
        if (before := self.waiting.pop(uri, None)) is not None:
            before.cancel()
        self.waiting[uri] = asyncio.get_running_loop().call_later(_BURST_S, self.check_now, uri)

    def check_now(self, uri: str) -> None:
        """Check a document now, and publish its findings."""
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
        """Return an open module with its current text."""
        if uri in self.waiting:
            self.check_now(uri)
        return self.documents.get(uri)

    def finish(self, uri: str) -> None:
        """Run the checks that were postponed for a document."""
        if (document := self.document(uri)) is not None and document.live.is_pending:
            document.live.go_on()

    def publish(self, uri: str, document: Document) -> None:
        diagnostics = [self.diagnostic(document.live, finding) for finding in document.live.findings]
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=uri, version=document.version, diagnostics=diagnostics)
        )

    def diagnostic(self, live: LiveModule, finding: LiveFinding) -> types.Diagnostic:
        text = f"{finding.name}: {finding.message}" if finding.name else finding.message
        return types.Diagnostic(
            range=range_of(live, span_of(live, finding)),
            message=text,
            severity=types.DiagnosticSeverity.Warning if finding.is_rule else types.DiagnosticSeverity.Error,
            source="pypto-build",
            code="pto/syntax" if finding.syntax else "pto/check",
        )

    def after_a_pause(self) -> None:
        if self.pause is not None:
            self.pause.cancel()
        self.pause = asyncio.get_running_loop().call_later(_PAUSE_S, self.rest)

    def rest(self) -> None:
        """Run all postponed checks in a pause of typing."""
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
        """Schedule lint for the artifact of a document that was opened or saved."""
        path = path_of(uri)
        artifact = artifact_of(path) if path is not None else None
        if path is None or artifact is None or not (path.suffix == ".pto" or is_looked_at(path, artifact)):
            return
        task = asyncio.get_running_loop().create_task(self.lint(artifact, uri))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def lint(self, artifact: Path, opened: str) -> None:
        shown = self.linted.setdefault(artifact, set())
        diagnostics_of: dict[str, list[types.Diagnostic]] = {uri: [] for uri in shown}
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
            diagnostics_of.setdefault(uri_of(path), []).append(diagnostic)
        shown |= diagnostics_of.keys()
        for uri, diagnostics in diagnostics_of.items():
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri=uri, diagnostics=diagnostics))
        self.linted[artifact] = {uri for uri, diagnostics in diagnostics_of.items() if diagnostics}

    # --- positions ---------------------------------------------------------------------------------------------------

    def token_in(self, params: AtPosition) -> tuple[Document, Token] | None:
        """Return the open module of a request, and the token at its position."""
        document = self.document(params.text_document.uri)
        if document is None or params.position.line >= len(document.live.lines):
            return None
        line, position = document.live.lines[params.position.line], params.position
        token = token_at(document.live, position.line, column_of(line, position.character))
        return (document, token) if token is not None else None
