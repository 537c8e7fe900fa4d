"""Writes what came of tests and replays, told on standard input, to files for CI and as annotations.

python -m pypto_build.diagnose.outcomes --top DIR --build-dir DIR [--junit FILE] [--json FILE] [--sarif FILE]
[--annotate github|gitlab]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from pypto_build import terminal
from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import write_bytes
from pypto_build.diagnose.console import command, tool_parser
from pypto_build.diagnose.findings import Finding, Report, as_sarif
from pypto_build.diagnose.outcomes.formats import as_code_quality, as_json, as_junit, github_lines
from pypto_build.diagnose.outcomes.outcome import TestOutcome

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
def main(given: argparse.Namespace) -> int:
    """0 where all is written, else 2."""
    try:
        outcomes = msgspec.json.decode(sys.stdin.buffer.read(), type=list[TestOutcome])
    except msgspec.MsgspecError as error:
        raise ArtifactError("standard input", f"tells no outcomes: {error}") from None
    findings = [_in_workspace(found, given.top) for outcome in outcomes for found in outcome.findings(given.top)]
    sarif = as_sarif(Report("replay", given.top.name, tuple(findings)), given.top)
    files = {given.junit: as_junit(outcomes, given.top), given.json: as_json(outcomes, given.top), given.sarif: sarif}
    if given.annotate == "gitlab":
        files[given.build_dir / CODE_QUALITY] = as_code_quality(findings)
    for path, data in files.items():
        if path is not None:
            write_bytes(path, data)
    if given.annotate == "github":
        terminal.say(*github_lines(findings))
    return 0


def _in_workspace(finding: Finding, top: Path) -> Finding:
    """The finding with the path that everybody who has the workspace knows."""
    inside = Path(finding.path).is_relative_to(top) if finding.path else False
    return msgspec.structs.replace(finding, path=str(Path(finding.path).relative_to(top))) if inside else finding


if __name__ == "__main__":
    sys.exit(main())
