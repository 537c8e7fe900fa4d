"""The first task whose output leaves the reference: `python -m pypto_build.diagnose.diverge ARTIFACT_DIR …`.

Every task runs twice on the same bytes, as compiled and as PyTorch made from its `.pto` module; what it wrote is
compared. A kernel that computes something else is run again with probes, which tell the line of the module and the
line of the kernel. Where all kernels agree with their modules and the golden does not, the module or the orchestration
is wrong: `--program` tells which. `--against` examines a recorded dump instead of a run.

Exit status: 0 nothing found, 1 something was, 2 usage, 3 build, 4 golden, 5 runtime fault, 6 hang.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pypto_build.artifact.extras import require_torch
from pypto_build.diagnose.console import add_run_options, add_tolerances, command, tool_parser
from pypto_build.diagnose.findings import add_output_options
from pypto_build.diagnose.requests import run_tool_on_runs


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    options = tool_parser("diverge", __doc__)
    add = options.add_argument
    add_run_options(options, 600.0)
    add("--seed", type=int, default=0, metavar="N", help="seed of inputs made up without data/in (0)")
    add_tolerances(options, "what the element type's rounding explains")
    add("--against", type=Path, metavar="DUMP_DIR", help="examine this dump of arguments instead of a run")
    add("--program", type=Path, metavar="P.py", help="the program, when the artifact does not name it")
    add_output_options(options)
    return options


@command("diverge", parser, run=run_tool_on_runs)
def main(given: argparse.Namespace) -> int:
    """The exit status."""
    require_torch("the reference")
    from pypto_build.diagnose.diverge.run import diverge

    return diverge(given)


if __name__ == "__main__":
    sys.exit(main())
