"""The command of a report: where it goes, and what is said of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.atomic import write_bytes
from pypto_build.diagnose.console import run_tool, taking_long
from pypto_build.diagnose.repeat import Repeat, given_options
from pypto_build.diagnose.report.page import page


def write_report(
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    data_of: Callable[[argparse.Namespace, Repeat], dict[str, Any]],
) -> int:
    """Write the page of what `data_of` collects of a run; 0, or 2 where there is nothing to report on."""
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_args(words)
    return run_tool("report", lambda: _write(given, data_of, given_options(words)))


def _write(
    given: argparse.Namespace, data_of: Callable[[argparse.Namespace, Repeat], dict[str, Any]], repeat: Repeat
) -> int:
    if not (given.build_dir / "verdict.json").is_file():
        raise ArtifactError(given.build_dir / "verdict.json", "is missing", "replay the artifact first: scons replay")
    path = given.output or given.build_dir / "report.html"
    with taking_long("writing the report"):
        data = data_of(given, repeat)
        write_bytes(path, page(f"{data['verdict']['status']}: {data['artifact']}", data).encode())
    size = path.stat().st_size
    print(f"[report] {path}  ({size / 1024:.0f} KiB, open it in any browser; it needs no network)")
    return 0
