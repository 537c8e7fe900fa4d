"""One kernel run of one task, instruction by instruction: `python -m pypto_build.diagnose.step ARTIFACT_DIR --task 3`.

Tasks before it run as compiled. The kernels of the task are compiled to tell every instruction and what variables hold,
and their modules' PyTorch runs beside them on the same inputs. What one sees is that recording: going back is free.
With SCRIPT= commands are done and plain lines printed, with EXPORT=html a page is written, else it is a terminal's.

Exit status: 0; 2 usage, 3 build, 5 runtime fault, 6 hang.
"""

from __future__ import annotations

import argparse
import sys

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.errors import require_torch
from pypto_build.diagnose.console import add_beside, add_options_of, add_run_options, command, tool_parser
from pypto_build.diagnose.requests import run_tool_on_runs


def parser() -> argparse.ArgumentParser:
    """The command line's options."""
    options = tool_parser("step", __doc__)
    add_run_options(options)
    add_beside(options)
    add_options_of(options, "step", TIMEOUT=600.0)
    return options


@command("step", parser, run=run_tool_on_runs)
def main(options: argparse.Namespace) -> int:
    """The exit status."""
    require_torch("the reference")
    from pypto_build.diagnose.step.face import show

    if not options.task.isdecimal() or len(options.task) > 9:
        raise ArtifactError("", f"TASK={options.task} is not a task number", "give one such as TASK=3")
    return show(options)


if __name__ == "__main__":
    sys.exit(main())
