"""`scons reduce`: the smallest artifact that still fails in the same way.

python -m pypto_build.diagnose.reduce ARTIFACT_DIR --platform P --build-dir OUT --embedded PATH --keep mismatch:f
    [--against GOOD] [--output DIR] [--jobs N] [--cvise]

It ends with the artifact DIR/<name>_reduced and, beside it in OUT, a pack of its replay. Whatever was tried is kept in
OUT/reduce/, so that the same command goes on after an interruption.

Exit status: 0 reduced, 1 nothing to reduce it to, 2 usage, 3 build, 5 runtime fault, 6 hang.
"""

from __future__ import annotations

import argparse
import sys

from pypto_build.diagnose.console import add_options_of, add_run_options, command, tool_parser
from pypto_build.diagnose.reduce import BEFORE_A_RUN
from pypto_build.diagnose.requests import run_tool_on_runs
from pypto_build.farm.session import add_farm_options


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = tool_parser("reduce", __doc__)
    add = options.add_argument
    add_run_options(options, always=False)
    add_options_of(options, "reduce")
    add("--jobs", type=int, default=0, metavar="N", help="compile so many candidates at once (all processors)")
    add_farm_options(options)
    return options


@command("reduce", parser, run=run_tool_on_runs)
def main(options: argparse.Namespace) -> int:
    """The exit status."""
    if options.embedded is None and options.keep.partition(":")[0] not in BEFORE_A_RUN:
        parser().error("--embedded is required unless KEEP= names a build error or a golden error")
    from pypto_build.diagnose.reduce.work import reduce

    return reduce(options)


if __name__ == "__main__":
    sys.exit(main())
