"""Outcomes as JUnit's XML, as JSON, and as annotations."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec

from pypto_build.artifact.files import read_bytes
from pypto_build.diagnose.findings import Finding
from pypto_build.diagnose.outcomes.outcome import TestOutcome, report_text

SCHEMA = 1
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_junit(outcomes: Sequence[TestOutcome], top: Path) -> bytes:
    """One suite with a case for each outcome, or those of its own report. Mismatches are failures; what did not run to
    its end is an error."""
    suite = ElementTree.Element("testsuite", {"name": "pypto-build"})
    for outcome in outcomes:
        if cases := _own_cases(outcome):
            suite.extend(cases)
            continue
        group = Path(outcome.artifact).name or "pypto-build"
        case = {"name": _xml(outcome.name), "classname": _xml(group), "time": f"{outcome.seconds:.3f}"}
        element = ElementTree.SubElement(suite, "testcase", case)
        if outcome.verdict:
            properties = ElementTree.SubElement(element, "properties")
            ElementTree.SubElement(properties, "property", {"name": "verdict", "value": _xml(outcome.verdict)})
            for rule in told.rules if (told := outcome.read(top)) else ():
                ElementTree.SubElement(properties, "property", {"name": "rule", "value": _xml(str(rule))})
            if outcome.pack:
                ElementTree.SubElement(properties, "property", {"name": "pack", "value": _xml(outcome.pack)})
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
    """Return the cases in the report that a test wrote itself; none where there is no such report."""
    try:
        return list(ElementTree.fromstring(read_bytes(outcome.junit)).iter("testcase")) if outcome.junit else []
    except (OSError, ElementTree.ParseError):
        return []


def _element(outcome: TestOutcome) -> str:
    """The element of JUnit that tells an outcome; none for one that passed."""
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
        told = msgspec.to_builtins(outcome)
        told["text"] = report_text(outcome, top) if outcome.failed else ""
        tests.append({**told, "result": msgspec.to_builtins(verdict) if verdict else None})
    failed = sum(outcome.failed for outcome in outcomes)
    skipped = sum(outcome.word == "SKIPPED" for outcome in outcomes)
    counts = {"passed": len(outcomes) - failed - skipped, "failed": failed, "skipped": skipped}
    return msgspec.json.format(msgspec.json.encode({"schema": SCHEMA, **counts, "tests": tests}), indent=1) + b"\n"


def github_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """A workflow command for each finding, which GitHub shows at its line."""
    for finding in findings:
        place = {"file": finding.path, "line": str(finding.line or ""), "title": finding.rule}
        words = ",".join(f"{name}={_property(value)}" for name, value in place.items() if value)
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
