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
from collections.abc import Sequence
from pathlib import Path

from pypto_build.artifact.extras import require_torch
from pypto_build.diagnose.console import run_tool
from pypto_build.diagnose.findings import add_output_options


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    options = argparse.ArgumentParser(
        prog="python -m pypto_build.diagnose.diverge",
        description="The first task whose output leaves the PyTorch reference, and the lines that made it.",
        allow_abbrev=False,
    )
    add = options.add_argument
    add("artifact", type=Path, metavar="ARTIFACT_DIR")
    add("--platform", required=True, metavar="P")
    add("--build-dir", type=Path, required=True, metavar="OUT", help="what was built")
    add("--embedded", type=Path, required=True, metavar="PATH", help="the embedded runtime's extension module")
    add("--data", type=Path, metavar="DIR", help="another directory with in/ and out/ than the artifact's data/")
    add("--seed", type=int, default=0, metavar="N", help="seed of inputs made up without data/in (0)")
    add("--rtol", type=float, metavar="R", help="relative tolerance (what the element type's rounding explains)")
    add("--atol", type=float, metavar="A", help="absolute tolerance")
    add("--timeout", type=float, default=600.0, metavar="S", help="seconds the run may take (600)")
    add("--against", type=Path, metavar="DUMP_DIR", help="examine this dump of arguments instead of a run")
    add("--program", type=Path, metavar="P.py", help="the program, when the artifact does not name it")
    add_output_options(options)
    return options


def main(argv: Sequence[str] | None = None) -> int:
    given = parser().parse_args(argv)
    return run_tool("diverge", lambda: _diverge(given))


def _diverge(given: argparse.Namespace) -> int:
    require_torch("the reference")
    from pypto_build.diagnose.diverge.run import diverge

    return diverge(given)


if __name__ == "__main__":
    sys.exit(main())
