"""Writes what came of tests and replays, told on standard input, to files for CI and as annotations.

python -m pypto_build.diagnose.outcomes --top DIR --build-dir DIR [--junit FILE] [--json FILE] [--sarif FILE]
[--annotate github|gitlab]
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec

from pypto_build import terminal
from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.files import read_bytes, read_source, write_bytes
from pypto_build.diagnose.console import command, tool_parser
from pypto_build.diagnose.findings import Finding, Level, Report, as_sarif
from pypto_build.diagnose.hazards.faults import fault_finding
from pypto_build.facts.outcomes import Outcome
from pypto_build.replay.report import mismatch_block
from pypto_build.replay.verdict import OutputResult, Verdict, read_verdict

# One test or replay as it was told, its verdict, and what is wrong with it as findings.

# `file:12:3: error: text` of a compiler, and `kernels/aiv/x.cpp:12` in a message.
_DIAGNOSTIC = re.compile(
    r"(?m)^(?P<ours>error: )?(?P<path>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)? (?(ours)|(?:fatal )?error: )(?P<text>.*)$"
)
_PLACE = re.compile(r"(?P<path>[^\s():]+\.(?:cpp|h|hpp|py)):(?P<line>\d+)")


class TestOutcome(Outcome):
    """The record of one test by the build. Its verdict is read from a separate file."""

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
            yield Finding("replay/unchecked", f"{self.name}: no golden exists to compare with", source, 0)

    def _errors(self, top: Path) -> Iterator[Finding]:
        matches = list(_DIAGNOSTIC.finditer(self.text))
        for match in matches:
            yield Finding("build/error", match["text"], str((top / match["path"]).resolve()), int(match["line"]))
        if not matches:
            lines = [line for line in self.text.splitlines() if line.strip()] or [self.reason]
            last = lines[-1].strip().removeprefix(f"{self.name}: ")
            yield Finding("build/error", f"{self.name}: {last}")

    def _position(self, verdict: Verdict, top: Path) -> tuple[str, int]:
        """Return the file and line at which a run ended, from the message or else from the fault's record."""
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
        """Return the last line of an orchestration that names an output, usually that of the task that writes it."""
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


# Outcomes as JUnit's XML, as JSON, and as annotations.

SCHEMA = 1
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_junit(outcomes: Sequence[TestOutcome], top: Path) -> bytes:
    """Return a JUnit suite with one case for each outcome, or with the cases that the test itself reported.

    A mismatch is a failure. A run that did not finish is an error.
    """
    suite = ElementTree.Element("testsuite", {"name": "pypto-build"})
    for outcome in outcomes:
        if cases := _own_cases(outcome):
            suite.extend(cases)
            continue
        group = Path(outcome.artifact).name or "pypto-build"
        case = {"name": _xml(outcome.name), "classname": _xml(group), "time": f"{outcome.seconds:.3f}"}
        element = ElementTree.SubElement(suite, "testcase", case)
        report = outcome.read(top) if outcome.verdict else None
        named = [("verdict", outcome.verdict), *(("rule", str(rule)) for rule in (report.rules if report else ()))]
        named += [("pack", outcome.pack), ("prediction", outcome.prediction)]
        properties = [{"name": name, "value": _xml(value)} for name, value in named if value]
        if properties:
            parent = ElementTree.SubElement(element, "properties")
            for attributes in properties:
                ElementTree.SubElement(parent, "property", attributes)
        kind = _element(outcome)
        if kind == "skipped":
            ElementTree.SubElement(element, "skipped", {"message": _xml(outcome.reason)})
        elif kind:
            detail = ElementTree.SubElement(element, kind, {"message": _xml(outcome.reason), "type": outcome.word})
            lines = [report_text(outcome, top).rstrip(), f"verdict: {outcome.verdict}", f"why: {outcome.command}"]
            detail.text = _xml("\n".join(line for line in lines if not line.endswith(": ")))
    counted = {"tests": "", "failures": "/failure", "errors": "/error", "skipped": "/skipped"}
    for name, below in counted.items():
        suite.set(name, str(len(suite.findall(f"testcase{below}"))))
    suite.set("time", f"{sum(outcome.seconds for outcome in outcomes):.3f}")
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _own_cases(outcome: TestOutcome) -> list[ElementTree.Element]:
    """Return the cases in the JUnit report that the test wrote itself, or an empty list if it wrote none."""
    try:
        return list(ElementTree.fromstring(read_bytes(outcome.junit)).iter("testcase")) if outcome.junit else []
    except (OSError, ElementTree.ParseError):
        return []


def _element(outcome: TestOutcome) -> str:
    """Return the JUnit element for an outcome, or an empty text for a pass."""
    if outcome.word == "SKIPPED":
        return "skipped"
    if not outcome.failed:
        return ""
    return "failure" if outcome.word in ("FAIL", "UNCHECKED") else "error"


def _xml(text: str) -> str:
    return _NOT_IN_XML.sub("?", text)


def as_json(outcomes: Sequence[TestOutcome], top: Path) -> bytes:
    """All outcomes, each with its whole verdict."""
    tests = []
    for outcome in outcomes:
        verdict = outcome.read(top)
        fields = msgspec.to_builtins(outcome)
        fields["text"] = report_text(outcome, top) if outcome.failed else ""
        tests.append({**fields, "result": msgspec.to_builtins(verdict) if verdict else None})
    failed = sum(outcome.failed for outcome in outcomes)
    skipped = sum(outcome.word == "SKIPPED" for outcome in outcomes)
    counts = {"passed": len(outcomes) - failed - skipped, "failed": failed, "skipped": skipped}
    return msgspec.json.format(msgspec.json.encode({"schema": SCHEMA, **counts, "tests": tests}), indent=1) + b"\n"


def github_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """A workflow command for each finding, which GitHub shows at its line."""
    for finding in findings:
        properties = {"file": finding.path, "line": str(finding.line or ""), "title": finding.rule}
        words = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
        text = f"{finding.message}; {finding.hint}" if finding.hint else finding.message
        yield f"::error {words}::{_data(text)}"


def as_code_quality(findings: Sequence[Finding]) -> bytes:
    """GitLab's code quality report: what its merge requests show at lines."""
    entries = [
        {
            "description": finding.message,
            "check_name": finding.rule,
            "fingerprint": hashlib.sha256(f"{finding.rule}\0{finding.path}\0{finding.message}".encode()).hexdigest(),
            "severity": "critical",
            "location": {"path": finding.path or ".", "lines": {"begin": finding.line or 1}},
        }
        for finding in findings
    ]
    return msgspec.json.format(msgspec.json.encode(entries), indent=1) + b"\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


#: In BUILD_DIR: what GitLab takes as a report of code quality.
CODE_QUALITY = "gl-code-quality-report.json"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = tool_parser("outcomes", __doc__)
    add = options.add_argument
    add("--top", type=Path, required=True, metavar="DIR", help="the workspace, which paths are told by")
    add("--build-dir", type=Path, required=True, metavar="DIR", help="gets the report for GitLab")
    for name in ("junit", "json", "sarif"):
        add(f"--{name}", type=Path, metavar="FILE")
    add("--annotate", choices=("github", "gitlab"), default="", metavar="CI")
    return options


@command("outcomes", parser)
def main(options: argparse.Namespace) -> int:
    """0 where all is written, else 2."""
    try:
        outcomes = msgspec.json.decode(sys.stdin.buffer.read(), type=list[TestOutcome])
    except msgspec.MsgspecError as error:
        raise ArtifactError("standard input", f"contains no valid list of outcomes: {error}") from None
    findings = [_in_workspace(one, options.top) for outcome in outcomes for one in outcome.findings(options.top)]
    sarif = as_sarif(Report("replay", options.top.name, tuple(findings)), options.top)
    files = {
        options.junit: as_junit(outcomes, options.top),
        options.json: as_json(outcomes, options.top),
        options.sarif: sarif,
    }
    if options.annotate == "gitlab":
        files[options.build_dir / CODE_QUALITY] = as_code_quality(findings)
    for path, data in files.items():
        if path is not None:
            write_bytes(path, data)
    if options.annotate == "github":
        terminal.say(*github_lines(findings))
    return 0


def _in_workspace(finding: Finding, top: Path) -> Finding:
    """Return the finding with a path relative to the workspace."""
    inside = Path(finding.path).is_relative_to(top) if finding.path else False
    return msgspec.structs.replace(finding, path=str(Path(finding.path).relative_to(top))) if inside else finding


if __name__ == "__main__":
    sys.exit(main())
