"""Writes the page on all runs of commands on many artifacts.

python -m pypto_build.diagnose.runs --history FILE --html FILE [--title TEXT]
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from urllib.parse import quote

from pypto_build.artifact.files import write_bytes
from pypto_build.diagnose.console import command, tool_parser
from pypto_build.diagnose.runs.page import runs_page
from pypto_build.replay.history import History


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = tool_parser("runs", __doc__)
    options.add_argument("--history", type=Path, required=True, metavar="FILE", help="BUILD_DIR/history.sqlite")
    options.add_argument("--html", type=Path, required=True, metavar="FILE", help="the page")
    options.add_argument("--title", default="Runs", metavar="TEXT")
    return options


def _reports(build_dir: Path, page: Path) -> dict[tuple[str, str], str]:
    """Return links from the page to the reports of artifacts, by artifact and platform."""
    found = sorted(build_dir.glob("*/*/report.html"))
    start = page.resolve().parent
    return {(path.parent.name, path.parents[1].name): quote(os.path.relpath(path.resolve(), start)) for path in found}


@command("runs", parser)
def main(given: argparse.Namespace) -> int:
    """0 where the page is written, else 2."""
    history = History(given.history)
    page = runs_page(history.runs(), history.results(), given.title, _reports(given.history.parent, given.html))
    write_bytes(given.html, page.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
