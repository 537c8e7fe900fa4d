"""A report: where it goes, and what is said of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import write_bytes
from pypto_build.diagnose.console import taking_long
from pypto_build.diagnose.repeat import Repeat, given_options
from pypto_build.diagnose.report.page import page


def write_report(given: argparse.Namespace, data_of: Callable[[Repeat], dict[str, Any]]) -> int:
    """Write the page of what `data_of` collects of a run; the exit status."""
    if not (given.build_dir / "verdict.json").is_file():
        raise ArtifactError(given.build_dir / "verdict.json", "is missing", "replay the artifact first: scons replay")
    path = given.output or given.build_dir / "report.html"
    with taking_long("writing the report"):
        data = data_of(given_options(given.words))
        write_bytes(path, page(f"{data['verdict']['status']}: {data['artifact']}", data).encode())
    size = path.stat().st_size
    print(f"[report] {path}  ({size / 1024:.0f} KiB, open it in any browser; it needs no network)")
    return 0
