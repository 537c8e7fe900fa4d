"""`scons sweep`: many inputs, and sizes of dynamic dimensions, against the reference.

python -m pypto_build.diagnose.sweep ARTIFACT_DIR --platform P --build-dir OUT --embedded PATH
    [--seeds 1-200] [--values random,edge,structured,special] [--shapes 1,7,64 | auto] [--data DIR|reference]

The smallest case that fails is kept as the artifact <name>_sweep, with its data. What is right is known by the
artifact's golden.py, or, with --data reference and where there is none, by PyTorch made from its modules.

Ctrl-C ends the sweep and reports the cases that ran.

Exit status: 0 all cases pass, 1 some fail, 2 usage, 3 build, 4 golden, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pypto_build.artifact.errors import require_torch
from pypto_build.diagnose.console import add_run_options, add_tolerances, command, tool_parser
from pypto_build.farm.session import add_farm_options


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = tool_parser("sweep", __doc__)
    add = options.add_argument
    add_run_options(options, 60.0)
    add("--seeds", default="1-200", metavar="A-B", help="one case a seed (1-200)")
    add("--values", default="", metavar="KINDS", help="random, edge, structured, special (the first three)")
    add("--shapes", default="", metavar="SIZES", help="of dynamic dimensions: 1,7,64, or 1x16,7x32; auto")
    add("--cases", default="", metavar="A-B", help="of all cases only these, counted from 1: 51-100, or 17")
    add("--output", type=Path, metavar="DIR", help="where the failing case goes (build_output)")
    add_tolerances(options)
    add("--jobs", type=int, default=0, metavar="N", help="run so many cases at once (all processors)")
    add("--json", type=Path, metavar="FILE", help="also write all cases as JSON; FILE.msgpack: as MessagePack")
    add_farm_options(options)
    return options


@command("sweep", parser)
def main(options: argparse.Namespace) -> int:
    """The exit status."""
    require_torch("the reference")
    from pypto_build.diagnose.sweep.work import sweep

    return sweep(options)


if __name__ == "__main__":
    sys.exit(main())
