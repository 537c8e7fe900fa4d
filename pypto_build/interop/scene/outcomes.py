"""Runs cases of a scene test through the rules, as `pypto-build replay` does, and tells what became of each."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.pt import read_pt
from pypto_build.artifact.scene_reader import NotLiteral, is_scene_test, read_literal
from pypto_build.artifact.scenes import OUTCOMES_VARIABLE, CaseOutcome, Scenes, read_scenes
from pypto_build.replay.verdict import Verdict, read_verdict
from pypto_build.toolchain.python import own_environment, own_tool, run_tool

#: What a case came to.
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class CaseResult:
    """What one case came to: ``word`` is PASSED, FAILED or SKIPPED; ``message`` is why, where it did not pass."""

    label: str
    word: str
    message: str = ""
    outputs: Path | None = None  # the directory of what it computed


def compare_runtimes(first: CaseResult, second: CaseResult, names: tuple[str, str]) -> CaseResult:
    """What a case came to on two runtimes; how their outputs differ where both passed."""
    pairs = zip(names, (first, second), strict=True)
    words = [f"{name}: {one.word}{f' ({one.message})' if one.message else ''}" for name, one in pairs]
    if first.word != PASSED or second.word != PASSED:
        word = FAILED if FAILED in (first.word, second.word) else SKIPPED
        return CaseResult(first.label, word, "; ".join(words))
    differing = [path.stem for path in _outputs(first) if not _same(path, second)]
    said = f"outputs differ in bits: {', '.join(differing)}" if differing else "outputs are the same, byte by byte"
    return CaseResult(first.label, PASSED, said)


def _outputs(result: CaseResult) -> list[Path]:
    return sorted(result.outputs.glob("*.pt")) if result.outputs else []


def _same(path: Path, other: CaseResult) -> bool:
    twin = other.outputs / path.name if other.outputs else path
    return twin.is_file() and bytes(read_pt(path).contiguous()) == bytes(read_pt(twin).contiguous())


def find_files(places: Sequence[str]) -> list[Path]:
    """The files of scene tests that ``places`` name, directories with all below them.

    Raises a usage error for a place that has none.
    """
    found: list[Path] = []
    for place in places or ["."]:
        path = Path(place)
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        tests = [file for file in files if is_scene_test(file)]
        if not tests:
            hint = "name a file with a @scene_test class, or a directory that has some"
            raise ArtifactError(place, "no scene test is there" if path.exists() else "no such file or directory", hint)
        found += tests
    return list(dict.fromkeys(found))


def describe_file(path: Path) -> Scenes:
    """What a file declares; one that is not literal is executed, in a process of its own."""
    try:
        return read_literal(path)
    except NotLiteral:
        pass
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory, "scenes.json")
        command = [*own_tool("pypto_build.interop.scene.describe"), str(path), "--output", str(output)]
        run = subprocess.run(command, env=own_environment(), capture_output=True, text=True, check=False)
        if run.returncode:
            reason = run.stderr.strip().rpartition("\n")[2].removeprefix("error: ")
            return Scenes(reason=reason or f"its process ended with status {run.returncode}")
        return read_scenes(output)


def run_cases(
    file: Path, labels: Sequence[str], platform: str, words: Sequence[str], environment: Mapping[str, str] = os.environ
) -> tuple[list[CaseResult], str]:
    """Run cases of ``file`` (CLASS::CASE), all in one build; what they came to, and what was printed.

    ``words`` are further flags of `pypto-build replay`.
    """
    with tempfile.TemporaryDirectory() as directory:
        outcomes = Path(directory, "outcomes.json")
        command = [
            *own_tool("pypto_build.cli"),
            "replay",
            str(file),
            "-p",
            platform,
            f"CASE={','.join(labels)}",
            *words,
        ]
        _, output = run_tool(command, own_environment({**environment, OUTCOMES_VARIABLE: str(outcomes)}))
        try:
            told = {row.label: row for row in msgspec.json.decode(outcomes.read_bytes(), type=list[CaseOutcome])}
        except (OSError, msgspec.MsgspecError):
            told = {}
    return [_result(label, told.get(label), output) for label in labels], output


def _result(label: str, outcome: CaseOutcome | None, output: str) -> CaseResult:
    if outcome is None or (outcome.verdict and not outcome.ran):
        return CaseResult(label, FAILED, _first_error(output))
    if not outcome.verdict:
        return CaseResult(label, FAILED if outcome.ran else SKIPPED, outcome.reason)
    try:
        path = Path(outcome.verdict)
        return replace(_judged(label, read_verdict(path)), outputs=path.with_name("actual"))
    except ArtifactError as error:
        return CaseResult(label, FAILED, str(error))


def _judged(label: str, verdict: Verdict) -> CaseResult:
    if verdict.status in ("pass", "unchecked"):
        return CaseResult(label, PASSED)
    if verdict.error is not None:
        return CaseResult(label, FAILED, f"{verdict.status}: {verdict.error}")
    wrong = [output for output in verdict.outputs if output.status == "mismatch"]
    said = next((output.detail for output in wrong if output.detail), "")
    differing = ", ".join(f"'{out.name}' {out.mismatched}/{out.numel} max_diff={out.max_abs:g}" for out in wrong)
    return CaseResult(label, FAILED, said or f"Golden mismatch on {differing}")


def _first_error(output: str) -> str:
    """The line of a build's output that says what is wrong."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    marked = [line for line in lines if " error: " in line or "undefined reference" in line or "***" in line]
    return marked[0] if marked else lines[-1] if lines else "it ended without a word"
