"""Findings of the diagnostic tools, printed as text, as JSON, and as SARIF for editors and CI.

A finding has a message, a file and line of the artifact, the tasks concerned, and the edits that mend it. Tools write
their findings to ``OUT/findings/<tool>.json`` (and ``.sarif``), which the report reads.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import quote

import msgspec

from pypto_build import __version__, terminal
from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.files import from_here, read_bytes, read_record, write_bytes
from pypto_build.facts.findings import RULES

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")

SCHEMA = 1
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
_DIRECTORY = "findings"


class Related(msgspec.Struct, frozen=True):
    """A second position that belongs to a finding: the other access, the declaration, the line to change."""

    path: str
    line: int
    message: str


class Edit(msgspec.Struct, frozen=True):
    """A change of one line that makes a finding go away: `old` in the line becomes `new`."""

    path: str
    line: int
    old: str
    new: str


class Finding(msgspec.Struct, frozen=True):
    """One finding.

    ``rule`` names its kind (``lint/no-drain``). ``path`` is relative to the artifact, or absolute outside of it, and
    empty if no file is at fault. ``line`` counts from 1, and is 0 if no line is at fault. ``hint`` says what to edit,
    and ``edits`` are the same changes in a form that can be applied. ``detail`` has further lines of text. ``tasks``
    are the numbers of the tasks concerned, ``kernel`` is the name of the kernel.
    """

    rule: str
    message: str
    path: str = ""
    line: int = 0
    hint: str = ""
    level: Level = "error"
    detail: tuple[str, ...] = ()
    tasks: tuple[int, ...] = ()
    kernel: str = ""
    related: tuple[Related, ...] = ()
    edits: tuple[Edit, ...] = ()

    @property
    def position(self) -> str:
        """The position as ``kernels/aiv/x.cpp:12``, the path alone, or an empty text."""
        return position_text(self.path, self.line) if self.path else ""

    @property
    def lines(self) -> list[str]:
        """The finding as text: ``position: level: message [rule]``, details, hint and edits."""
        position = f"{self.position}: " if self.position else ""
        text = [f"{position}{self.level}: {self.message} [{self.rule}]"]
        text += [f"    {line}" for line in self.detail]
        text += [f"    {position_text(other.path, other.line)}: {other.message}" for other in self.related]
        text += [f"    do: {self.hint}"] if self.hint else []
        return text + [f"    edit {position_text(e.path, e.line)}: {e.old}  ->  {e.new}" for e in self.edits]


def position_text(path: str, line: int) -> str:
    """Return a position as people name it: from the working directory if it lies there."""
    return f"{from_here(path)}:{line}" if line else from_here(path)


class Report(msgspec.Struct, frozen=True):
    """The file that a tool writes: its name, the artifact and the findings. ``state`` is the digest of the artifact."""

    tool: str
    artifact: str
    findings: tuple[Finding, ...] = ()
    schema: int = SCHEMA
    state: str = ""


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings without duplicates, sorted by level (worst first) and position."""
    return sorted(dict.fromkeys(findings), key=lambda f: (LEVELS.index(f.level), f.path, f.line, f.rule, f.message))


def summary(findings: Sequence[Finding]) -> str:
    """Return the counts of findings: ``2 errors, 1 warning``, or ``nothing found``."""
    counts = [(sum(finding.level == level for finding in findings), level) for level in LEVELS]
    return ", ".join(f"{n} {level}{'' if n == 1 else 's'}" for n, level in counts if n) or "nothing found"


def as_json(report: Report) -> bytes:
    """Return the report as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"


def read_report(path: Path) -> Report:
    """Read the report at ``path``. Raises a usage error if it is none."""
    return read_record(path, Report, "is not a list of findings", "run the tool again")


def as_sarif(report: Report, root: Path) -> bytes:
    """Return the report in SARIF 2.1.0. Paths are relative to ``root``, the artifact's directory."""
    rules = sorted({finding.rule for finding in report.findings})
    run = {
        "tool": {
            "driver": {
                "name": f"pypto-build {report.tool}",
                "version": __version__,
                "rules": [_sarif_rule(rule) for rule in rules],
            }
        },
        "originalUriBaseIds": {"ARTIFACT": {"uri": root.resolve().as_uri() + "/"}},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(finding) for finding in report.findings],
    }
    document = {"$schema": _SARIF, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _sarif_rule(rule: str) -> dict[str, object]:
    meaning = RULES.get(rule)
    return {"id": rule, "shortDescription": {"text": meaning}} if meaning else {"id": rule}


def _sarif_result(finding: Finding) -> dict[str, object]:
    text = f"{finding.message}; {finding.hint}" if finding.hint else finding.message
    result: dict[str, object] = {"ruleId": finding.rule, "level": finding.level, "message": {"text": text}}
    if finding.path:
        result["locations"] = [_sarif_location(finding.path, finding.line)]
    if finding.related:
        result["relatedLocations"] = [
            {**_sarif_location(other.path, other.line), "message": {"text": other.message}} for other in finding.related
        ]
    return result


def _sarif_location(path: str, line: int) -> dict[str, object]:
    file = {"uri": Path(path).as_uri()} if Path(path).is_absolute() else {"uri": quote(path), "uriBaseId": "ARTIFACT"}
    region = {"region": {"startLine": line}} if line else {}
    return {"physicalLocation": {"artifactLocation": file, **region}}


# -- output of findings, the same for every tool -------------------------------------------------------------------


def below(finding: Finding, root: PurePosixPath) -> Finding:
    """Return a finding on a chip program with the paths of the distributed artifact, in which the program is `root`."""

    def path(name: str) -> str:
        return str(root / name) if name else ""

    return msgspec.structs.replace(
        finding,
        path=path(finding.path),
        related=tuple(msgspec.structs.replace(other, path=path(other.path)) for other in finding.related),
        edits=tuple(msgspec.structs.replace(edit, path=path(edit.path)) for edit in finding.edits),
    )


def deliver(
    tool: str, artifact: Path, findings: Iterable[Finding], options: argparse.Namespace, build_dir: Path | None = None
) -> int:
    """Print the findings, write the files that ``options`` names, and keep them in ``build_dir`` for the report.

    Returns the exit status: 1 if there is an error or a warning, else 0.
    """
    ordered = in_order(findings)
    report = Report(tool, artifact.name, tuple(ordered), state=state_of(artifact))
    for finding in ordered:
        terminal.say(*finding.lines)
    terminal.say(f"[{tool}] {artifact.name}: {summary(ordered)}")
    if options.json:
        write_bytes(options.json, as_json(report))
    keep(report, artifact, build_dir, options.sarif)
    return int(any(finding.level != "note" for finding in ordered))


def keep(report: Report, artifact: Path, build_dir: Path | None, sarif: Path | None) -> None:
    """Write a report to `sarif`, and to `build_dir`, where the report page and editors find it."""
    if sarif:
        write_bytes(sarif, as_sarif(report, artifact))
    if build_dir is not None:
        write_bytes(build_dir / _DIRECTORY / f"{report.tool}.json", as_json(report))
        write_bytes(build_dir / _DIRECTORY / f"{report.tool}.sarif", as_sarif(report, artifact))


def state_of(root: Path) -> str:
    """Return a digest of manifest and sources, which shows whether findings are stale. It is empty for no artifact."""
    try:
        digests = [hashlib.sha256(read_bytes(path)).digest() for path in load_artifact(root).sources]
        return hashlib.sha256(b"".join(digests)).hexdigest()
    except (ArtifactError, OSError):
        return ""


def kept_reports(build_dir: Path) -> list[Report]:
    """Return the reports that tools have written to ``build_dir``, without files that cannot be read."""
    reports = []
    for path in sorted((build_dir / _DIRECTORY).glob("*.json")):
        try:
            reports.append(read_report(path))
        except ArtifactError:  # noqa: PERF203 - one incomplete file must not hide the others
            continue
    return reports
