"""The first task whose output leaves the reference: `python -m pypto_build.diagnose.diverge ARTIFACT_DIR …`.

Every task runs twice on the same bytes: as compiled, and as PyTorch generated from its `.pto` module. Their outputs are
compared. A kernel that differs runs again with probes, which find the line of the module and the line of the kernel. If
all kernels agree with their modules but not with the golden, the modules or the orchestration are wrong. `--program`
finds out which. `--against` examines a recorded dump instead of a run.

Exit status: 0 no finding, 1 findings, 2 usage, 3 build, 4 golden, 5 runtime fault, 6 hang.
"""

from __future__ import annotations

import argparse
import sys

from pypto_build.artifact.errors import require_torch
from pypto_build.diagnose.console import add_chips, add_options_of, add_run_options, command, tool_parser
from pypto_build.diagnose.requests import run_tool_on_runs


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = tool_parser("diverge", __doc__)
    add_run_options(options)
    add_options_of(options, "diverge", TIMEOUT=600.0)
    add_chips(options)
    return options


@command("diverge", parser, run=run_tool_on_runs)
def main(options: argparse.Namespace) -> int:
    """Run the command and return the exit status."""
    require_torch("the reference")
    if options.chip:
        from pypto_build.diagnose.diverge.ranks import diverge_ranks

        return diverge_ranks(options)
    from pypto_build.diagnose.diverge.run import diverge

    return diverge(options)


if __name__ == "__main__":
    sys.exit(main())
