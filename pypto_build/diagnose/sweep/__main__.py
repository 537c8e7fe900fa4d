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

from pypto_build.artifact.errors import require_torch
from pypto_build.diagnose.console import add_options_of, add_run_options, command, tool_parser
from pypto_build.farm.session import add_farm_options


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = tool_parser("sweep", __doc__)
    add = options.add_argument
    add_run_options(options)
    add_options_of(options, "sweep")
    add("--jobs", type=int, default=0, metavar="N", help="run so many cases at once (all processors)")
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
