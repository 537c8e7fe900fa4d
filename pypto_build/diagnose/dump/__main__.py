"""`scons dump`: what a run's dump holds, listed; values, statistics and comparisons on request.

python -m pypto_build.diagnose.dump ARTIFACT_DIR|DUMP_DIR [--build-dir OUT] [--task 4] [--kernel k] [--arg x] …
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pypto_build.artifact import is_distributed
from pypto_build.diagnose.console import add_chips, add_options_of, command, require_one_rank, tool_parser
from pypto_build.diagnose.dump.viewer import dump_of_ranks, open_viewer, show
from pypto_build.facts.run_options import NOT_NEGATIVE
from pypto_build.replay.run_options import number


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = tool_parser("dump", __doc__)
    add = options.add_argument
    add("root", type=Path, metavar="ARTIFACT_DIR|DUMP_DIR", help="an artifact that was replayed, or a dump directory")
    add("--build-dir", type=Path, metavar="OUT", help="where the artifact was replayed: build/<platform>/<artifact>")
    add("--platform", help=argparse.SUPPRESS)
    add("--embedded", help=argparse.SUPPRESS)
    add("--output", type=Path, help="where exported tensors go (default: export/ beside the dump)")
    add_options_of(options, "dump")
    add_chips(options)
    add("--values", action="store_true", help="statistics and values of everything selected")
    add("--rtol", type=number(NOT_NEGATIVE), default=1e-5, help="relative tolerance of --against")
    add("--atol", type=number(NOT_NEGATIVE), default=1e-5, help="absolute tolerance of --against")
    return options


@command("dump", parser)
def main(options: argparse.Namespace) -> int:
    """View a dump. Returns 0, or 1 if --against finds a difference."""
    if is_distributed(options.root):
        return dump_of_ranks(options)
    require_one_rank(options.rank)
    return show(open_viewer(options.root, options.build_dir), options)


if __name__ == "__main__":
    sys.exit(main())
