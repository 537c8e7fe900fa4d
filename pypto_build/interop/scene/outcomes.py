"""Runs cases of a scene test through the rules, as `pypto-build replay` does, and reports the result of each."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.pt import read_pt
from pypto_build.artifact.scene_reader import NotLiteral, read_literal, scene_files
from pypto_build.artifact.scenes import (
    DESCRIPTIONS_VARIABLE,
    OUTCOMES_VARIABLE,
    CaseOutcome,
    FileDescription,
    Scenes,
    read_scenes,
)
from pypto_build.replay.verdict import Verdict, read_verdict
from pypto_build.toolchain.forked import ForkedTools
from pypto_build.toolchain.python import end_session, own_environment, own_tool, start_kept

_DESCRIBE = "pypto_build.interop.scene.describe"
#: The results of a case.
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
_TICK_S = 0.02
#: The time limit of one case. It is generous, as tests set none themselves and many may run at a time.
_TIME_LIMIT_S = 300


@dataclass(frozen=True)
class CaseResult:
    """The result of one case: ``word`` is PASSED, FAILED or SKIPPED; ``message`` is the reason if it did not pass."""

    label: str
    word: str
    message: str = ""
    outputs: Path | None = None  # the directory of what it computed
    printed: str = ""


def compare_runtimes(first: CaseResult, second: CaseResult, names: tuple[str, str]) -> CaseResult:
    """Return the result of a case on two runtimes; if both passed, with the differences of their outputs."""
    pairs = zip(names, (first, second), strict=True)
    words = [f"{name}: {one.word}{f' ({one.message})' if one.message else ''}" for name, one in pairs]
    if first.word != PASSED or second.word != PASSED:
        word = FAILED if FAILED in (first.word, second.word) else SKIPPED
        return CaseResult(first.label, word, "; ".join(words))
    differing = [path.stem for path in _outputs(first) if not _same(path, second)]
    comparison = (
        f"outputs differ in bits: {', '.join(differing)}" if differing else "outputs are the same, byte by byte"
    )
    return CaseResult(first.label, PASSED, comparison)


def _outputs(result: CaseResult) -> list[Path]:
    return sorted(result.outputs.glob("*.pt")) if result.outputs else []


def _same(path: Path, other: CaseResult) -> bool:
    twin = other.outputs / path.name if other.outputs else path
    return twin.is_file() and bytes(read_pt(path).contiguous()) == bytes(read_pt(twin).contiguous())


def find_files(places: Sequence[str]) -> list[Path]:
    """Return the scene test files that ``places`` name; a directory stands for all below it.

    Raises a usage error for a path that has none.
    """
    files: list[Path] = []
    for selector in places or ["."]:
        path = Path(selector)
        tests = scene_files(path)
        if not tests:
            hint = "name a file with a @scene_test class, or a directory with such files"
            raise ArtifactError(
                selector, "contains no scene test" if path.exists() else "no such file or directory", hint
            )
        files += tests
    return list(dict.fromkeys(files))


def describing() -> ForkedTools:
    """Return the prefork server for `describe_file`, which executes files to read their declarations."""
    return ForkedTools([_DESCRIBE, "torch"])  # which nearly every file imports


def describe_file(path: Path, tools: ForkedTools) -> Scenes:
    """Return the declarations of a file; a file that is not literal is executed, in a process of its own."""
    try:
        return read_literal(path)
    except NotLiteral:
        pass
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory, "scenes.json")
        command = [*own_tool(_DESCRIBE), str(path), "--output", str(output)]
        status, printed = tools.run(command, own_environment())
        if status:
            reason = printed.strip().rpartition("\n")[2].removeprefix("error: ")
            raise ArtifactError("", reason or f"{path}: its process ended with status {status}; run it in a debugger")
        return read_scenes(output)


class CasesRun:
    """Cases of scene tests that run in one `pypto-build replay`; each result is available as soon as it is known.

    ``origins`` are FILE::CLASS::CASE, or files; ``words`` are further flags. Closing this, or the end of this process
    by any signal, ends all unfinished work.
    """

    def __init__(
        self,
        origins: Sequence[str],
        platform: str,
        words: Sequence[str],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="pypto-scenes-")
        self._outcomes, self._printed, self._descriptions = (
            Path(self._directory.name, name) for name in ("outcomes", "printed", "descriptions")
        )
        self._reported: dict[str, CaseOutcome] = {}
        self._read = 0
        selector = ",".join(os.path.relpath(origin) for origin in origins)
        limit = [] if any(word.startswith("TIMEOUT=") for word in words) else [f"TIMEOUT={_TIME_LIMIT_S}"]
        command = [*own_tool("pypto_build.cli"), "replay", f"SCENE={selector}", "-p", platform, "-k", *limit, *words]
        with self._printed.open("wb") as printed:
            variables = {OUTCOMES_VARIABLE: str(self._outcomes), DESCRIPTIONS_VARIABLE: str(self._descriptions)}
            self._process = start_kept(command, own_environment({**environment, **variables}), printed)

    def descriptions(self) -> dict[str, FileDescription]:
        """Wait for the declarations of the files, and return them by path. Empty if the build ended before."""
        while not self._descriptions.exists() and self._process.poll() is None:
            time.sleep(_TICK_S)
        with suppress(OSError):
            return msgspec.json.decode(self._descriptions.read_bytes(), type=dict[str, FileDescription])
        return {}

    def result(self, origin: str) -> CaseResult:
        """Wait for the result of one case, and return it."""
        while (outcome := self._outcome(origin)) is None and self._process.poll() is None:
            time.sleep(_TICK_S)
        label = origin.partition("::")[2]
        return _result(label, outcome or self._outcome(origin), self.printed)

    @property
    def printed(self) -> str:
        """Return all output so far."""
        return self._printed.read_text(encoding="utf-8", errors="replace")

    def wait(self) -> None:
        """Wait for the build to end: it still has to write its records when all requested results are known."""
        self._process.wait()

    def close(self) -> None:
        """End the build."""
        if self._process.poll() is None:
            end_session(self._process)
        if self._process.stdin:
            self._process.stdin.close()
        self._directory.cleanup()

    def _outcome(self, origin: str) -> CaseOutcome | None:
        """Return the reported outcome of a case, or of its file."""
        with suppress(OSError), self._outcomes.open("rb") as file:
            file.seek(self._read)
            data = file.read().rpartition(b"\n")[0]
            self._read += len(data) + 1 if data else 0
            rows = [msgspec.json.decode(line, type=CaseOutcome) for line in data.splitlines()]
            self._reported |= {row.origin: row for row in rows}
        return self._reported.get(origin) or self._reported.get(origin.partition("::")[0])


def _result(label: str, outcome: CaseOutcome | None, printed: str) -> CaseResult:
    if outcome is None:
        return CaseResult(label, FAILED, _first_error(printed), printed=printed)
    if outcome.verdict and not outcome.ran:
        return CaseResult(label, FAILED, _first_error(outcome.reason or printed), printed=outcome.reason or printed)
    if not outcome.verdict:
        return CaseResult(label, FAILED if outcome.ran else SKIPPED, outcome.reason, printed=outcome.reason)
    try:
        path = Path(outcome.verdict)
        return replace(_judged(label, read_verdict(path)), outputs=path.with_name("actual"), printed=outcome.output)
    except ArtifactError as error:
        return CaseResult(label, FAILED, str(error), printed=outcome.output)


def _judged(label: str, verdict: Verdict) -> CaseResult:
    if verdict.status in ("pass", "unchecked"):
        return CaseResult(label, PASSED)
    if verdict.error is not None:
        return CaseResult(label, FAILED, f"{verdict.status}: {verdict.error}")
    wrong = [output for output in verdict.outputs if output.status == "mismatch"]
    detail = next((output.detail for output in wrong if output.detail), "")
    differing = ", ".join(f"'{out.name}' {out.mismatched}/{out.numel} max_diff={out.max_abs:g}" for out in wrong)
    return CaseResult(label, FAILED, detail or f"Golden mismatch on {differing}")


def _first_error(output: str) -> str:
    """Return the line of a build's output with the error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    marked = [line for line in lines if " error: " in line or "undefined reference" in line or "***" in line]
    return marked[0] if marked else lines[-1] if lines else "it ended without a word"
