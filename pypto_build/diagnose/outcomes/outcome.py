"""One test or replay as it was told, its verdict, and what is wrong with it as findings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.diagnose.findings import Finding, Level
from pypto_build.facts.outcomes import Outcome
from pypto_build.replay.report import mismatch_block
from pypto_build.replay.verdict import OutputResult, Verdict, read_verdict

# `file:12:3: error: text` of a compiler, and `#2 f (kernels/aiv/x.cpp:12)` in the stack of a crash.
_DIAGNOSTIC = re.compile(r"(?m)^(?P<path>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$")
_FRAME = re.compile(r"\((?P<path>[^()\s]+\.(?:cpp|h|hpp)):(?P<line>\d+)")


class TestOutcome(Outcome):
    """What the build says of one test, to be read with its verdict."""

    def read(self, top: Path) -> Verdict | None:
        """Its verdict, if it came as far."""
        try:
            return read_verdict(top / self.verdict) if self.verdict else None
        except ArtifactError:
            return None

    def findings(self, top: Path) -> Iterator[Finding]:
        """What is wrong: errors of the compiler, a fault of the run, outputs that differ, rules of the device."""
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
            path, line = self._position(verdict)
            text = f"{self.name}: {verdict.error.message}"
            yield Finding(f"replay/{verdict.status}", text, path, line, verdict.error.hint or self.command)
        source = self._orchestration()
        for output in verdict.outputs:
            if output.status == "mismatch":
                text = f"{self.name}: {difference(output)}"
                yield Finding("replay/mismatch", text, source, 0, self.command)
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

    def _position(self, verdict: Verdict) -> tuple[str, int]:
        """Where a run ended: the first frame of the artifact's own files, else the kernel's file."""
        assert verdict.error is not None
        root = Path(self.artifact)
        for line in verdict.error.detail:
            for match in _FRAME.finditer(line):
                path = root / match["path"] if not match["path"].startswith("/") else Path(match["path"])
                if path.is_file() and path.resolve().is_relative_to(root.resolve()):
                    return str(path.resolve()), int(match["line"])
        try:
            kernels = {kernel.name: kernel.source for kernel in load_artifact(root).kernels}
        except (ArtifactError, OSError):
            return "", 0
        source = kernels.get(verdict.error.kernel or "")
        return (str(source), 0) if source else (self._orchestration(), 0)

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
    """What a person would read of a failure: what the run printed, else what the verdict says."""
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
