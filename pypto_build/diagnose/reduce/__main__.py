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
from pathlib import Path

from pypto_build.diagnose.console import add_run_options, add_tolerances, command, tool_parser
from pypto_build.diagnose.reduce import BEFORE_A_RUN
from pypto_build.diagnose.requests import run_tool_on_runs
from pypto_build.farm.session import add_farm_options

_KEPT = "mismatch:OUTPUT, crash, hang, build_error[:KERNEL], golden_error, or the rule of a finding"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = tool_parser("reduce", __doc__)
    add = options.add_argument
    add_run_options(options, 60.0, always=False)
    add("--keep", required=True, metavar="WHAT", help=_KEPT)
    add("--against", type=Path, metavar="DIR", help="an artifact of the same program without the fault")
    add("--output", type=Path, metavar="DIR", help="where the artifact goes (build_output)")
    add("--seed", type=int, default=0, metavar="N", help="seed of inputs made up without data/in (0)")
    add_tolerances(options)
    add("--cvise", action="store_true", help="then C-Vise on kernels without a module; takes minutes")
    add("--jobs", type=int, default=0, metavar="N", help="compile so many candidates at once (all processors)")
    add("--cxx", default="", help="the C++ compiler")
    add("--arch", default="", help="-march of the kernels")
    add("--kernel-flags", default="", help="more flags for the kernels' compiler")
    add_farm_options(options)
    return options


@command("reduce", parser, run=run_tool_on_runs)
def main(options: argparse.Namespace) -> int:
    """The exit status."""
    if options.embedded is None and options.keep.partition(":")[0] not in BEFORE_A_RUN:
        parser().error("--embedded is required, unless KEEP= names a build error or a golden error")
    from pypto_build.diagnose.reduce.work import reduce

    return reduce(options)


if __name__ == "__main__":
    sys.exit(main())
