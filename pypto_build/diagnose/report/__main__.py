"""`scons report`: one HTML file about the last replay of an artifact.

python -m pypto_build.diagnose.report ARTIFACT_DIR --build-dir OUT [--output report.html]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.atomic import write_bytes
from pypto_build.diagnose.console import run_tool, taking_long, tool_parser
from pypto_build.diagnose.recorded.evidence import Evidence
from pypto_build.diagnose.repeat import add_passed_on, given_options
from pypto_build.diagnose.report.page import page
from pypto_build.diagnose.report.whole import report_data


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = tool_parser("report", __doc__)
    add = options.add_argument
    add("artifact", type=Path, metavar="ARTIFACT_DIR")
    add("--build-dir", type=Path, required=True, metavar="OUT", help="where it was replayed")
    add("--platform", default="a2a3sim", help="what it was replayed on")
    add("--embedded", default="EMBEDDED", help="the runtime's module, for the commands that repeat the run")
    add("--output", type=Path, help="the file to write (default: OUT/report.html)")
    add_passed_on(options)
    return options


def _write(given: argparse.Namespace, words: Sequence[str]) -> int:
    evidence = Evidence(given.artifact, given.build_dir, given.platform)
    if evidence.verdict is None:
        raise ArtifactError(given.build_dir / "verdict.json", "is missing", "replay the artifact first: scons replay")
    path = given.output or given.build_dir / "report.html"
    with taking_long("writing the report"):
        data = report_data(evidence, given.data, given_options(words), given.embedded)
        write_bytes(path, page(f"{evidence.verdict.status}: {data['artifact']}", data).encode())
    size = path.stat().st_size
    print(f"[report] {path}  ({size / 1024:.0f} KiB, open it in any browser; it needs no network)")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Write the report; 0, or 2 where there is nothing to report on."""
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser().parse_args(words)
    return run_tool("report", lambda: _write(given, words))


if __name__ == "__main__":
    sys.exit(main())
