"""One test or replay as it was told, its verdict, and what is wrong with it as findings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.files import read_source
from pypto_build.diagnose.findings import Finding, Level
from pypto_build.diagnose.hazards.faults import fault_finding
from pypto_build.facts.outcomes import Outcome
from pypto_build.replay.report import mismatch_block
from pypto_build.replay.verdict import OutputResult, Verdict, read_verdict

# `file:12:3: error: text` of a compiler, `error: file:12: text` of our tools; `kernels/aiv/x.cpp:12` in a message.
_DIAGNOSTIC = re.compile(
    r"(?m)^(?P<ours>error: )?(?P<path>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)? (?(ours)|(?:fatal )?error: )(?P<text>.*)$"
)
_PLACE = re.compile(r"(?P<path>[^\s():]+\.(?:cpp|h|hpp|py)):(?P<line>\d+)")


class TestOutcome(Outcome):
    """The build's record of one test; its verdict is read from a file of its own."""

    def read(self, top: Path) -> Verdict | None:
        """Its verdict, if it came as far."""
        try:
            return read_verdict(top / self.verdict) if self.verdict else None
        except ArtifactError:
            return None

    def findings(self, top: Path) -> Iterator[Finding]:
        """Yield errors of the compiler, a fault of the run, outputs that differ, broken rules of the device."""
        verdict = self.read(top)
        for rule in verdict.rules if verdict is not None else ():
            path = str(Path(self.artifact) / rule.path)
            level: Level = "error" if self.failed else "warning"
            yield Finding(f"rules/{rule.rule}", f"{self.name}: {rule.message}", path, rule.line, level=level)
        if not self.failed:
            return
        if verdict is None or verdict.status in ("build_error", "usage_error"):
            yield from self._errors(top)
            return
        if verdict.error is not None:
            path, line = self._position(verdict, top)
            text = f"{self.name}: {verdict.error.message}"
            yield Finding(f"replay/{verdict.status}", text, path, line, verdict.error.hint or self.command)
        source = self._orchestration()
        for output in verdict.outputs:
            if output.status == "mismatch":
                text = f"{self.name}: {difference(output)}"
                yield Finding("replay/mismatch", text, source, self._last_named(source, output.name), self.command)
        if verdict.status == "unchecked":
            yield Finding("replay/unchecked", f"{self.name}: there is no golden to compare with", source, 0)

    def _errors(self, top: Path) -> Iterator[Finding]:
        found = list(_DIAGNOSTIC.finditer(self.text))
        for match in found:
            yield Finding("build/error", match["text"], str((top / match["path"]).resolve()), int(match["line"]))
        if not found:
            lines = [line for line in self.text.splitlines() if line.strip()] or [self.reason]
            last = lines[-1].strip().removeprefix(f"{self.name}: ")
            yield Finding("build/error", f"{self.name}: {last}")

    def _position(self, verdict: Verdict, top: Path) -> tuple[str, int]:
        """Return where a run ended: the line in the message, else what the fault tells of the artifact's files."""
        assert verdict.error is not None
        root = Path(self.artifact)
        for match in _PLACE.finditer(verdict.error.message):
            path = top / match["path"]
            if path.is_file() and path.resolve().is_relative_to(root.resolve()):
                return str(path.resolve()), int(match["line"])
        try:
            finding = fault_finding(load_artifact(root), verdict)
        except (ArtifactError, OSError):
            return "", 0
        return (str(root / finding.path), finding.line) if finding and finding.path else ("", 0)

    def _last_named(self, source: str, output: str) -> int:
        """The last line of an orchestration that names an output: mostly that of the task which writes it."""
        try:
            lines = read_source(Path(source)).splitlines() if source else []
        except (ArtifactError, OSError):
            return 0
        named = re.compile(rf"\b(?:ext_)?{re.escape(output)}\b")
        return max((number for number, text in enumerate(lines, 1) if named.search(text)), default=0)

    def _orchestration(self) -> str:
        try:
            return str(load_artifact(Path(self.artifact)).orchestration.source)
        except (ArtifactError, OSError):
            return ""


def difference(output: OutputResult) -> str:
    """An output that differs, in a line."""
    first = output.first[0] if output.first else None
    where = f", first at {tuple(first.index)}: {first.actual}, expected {first.expected}" if first else ""
    return f"output '{output.name}': {output.mismatched} of {output.numel} elements differ{where}"


def report_text(outcome: TestOutcome, top: Path) -> str:
    """Return the text of a failure: the output of the run, or the reason or verdict if there is none."""
    if outcome.text:
        return outcome.text
    verdict = outcome.read(top)
    if verdict is None:
        return outcome.reason
    lines = [line for output in verdict.outputs if output.status == "mismatch" for line in _block(output, verdict)]
    if verdict.error is not None:
        lines += [str(verdict.error), *verdict.error.detail]
    return "\n".join(lines)


def _block(output: OutputResult, verdict: Verdict) -> list[str]:
    return [f"'{output.name}' FAIL", *mismatch_block(output, verdict.rtol, verdict.atol)]
