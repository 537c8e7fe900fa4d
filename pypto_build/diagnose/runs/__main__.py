"""Writes the page on all runs of commands on many artifacts.

python -m pypto_build.diagnose.runs --history FILE --html FILE [--title TEXT]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pypto_build.artifact.atomic import write_bytes
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


@command("runs", parser)
def main(given: argparse.Namespace) -> int:
    """0 where the page is written, else 2."""
    history = History(given.history)
    page = runs_page(history.runs(), history.results(), given.title)
    write_bytes(given.html, page.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
