"""`scons extract`: some tasks as an artifact of their own, with the arguments of a run as its data.

python -m pypto_build.diagnose.extract ARTIFACT_DIR --platform P --build-dir OUT --embedded PATH
    (--task 37 | --task 3-7 | --kernel NAME | --from 37) [--golden run|reference] [--output DIR]

The artifact goes to DIR/<name>_task37. Exit status: 0 written, 2 usage, 3 build, 5 runtime fault, 6 hang.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from pypto_build.artifact.errors import require_torch
from pypto_build.artifact.layout import artifact_name
from pypto_build.diagnose.console import add_options_of, add_run_options, command, counted, tool_parser
from pypto_build.diagnose.extract.record import choose
from pypto_build.diagnose.requests import run_tool_on_runs


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = tool_parser("extract", __doc__)
    add_run_options(options)
    add_options_of(options, "extract", TIMEOUT=600.0)
    return options


@command("extract", parser, run=run_tool_on_runs)
def main(options: argparse.Namespace) -> int:
    """Run the command and return the exit status."""
    from pypto_build.diagnose.extract.work import Plan, extract
    from pypto_build.replay.reference.launch import open_launch

    choice = choose(options.task, options.kernel, options.from_)
    if options.golden == "reference":
        require_torch("GOLDEN=reference")
    where = options.output or Path(os.environ.get("PYPTO_PROG_BUILD_DIR") or "build_output")
    root = Path(os.path.abspath(where)) / f"{artifact_name(options.artifact).replace('.', '_')}_{choice.label}"
    built = options.artifact, options.build_dir, options.embedded, options.platform
    launch = open_launch(*built, options.data, options.seed, options.binaries, options.numerics)
    written, recorded = extract(
        launch, Plan(choice, root, options.golden, options.build_dir / "extract", options.timeout)
    )
    tasks = written.tasks
    named = tasks[0].title if len(tasks) == 1 else f"{len(tasks)} of {recorded.count} tasks"
    sizes = sum(one.initial.nbytes for one in written.external)
    print(f"[extract] {named}: {counted(len(written.external), 'tensor')}, {sizes} bytes")
    for one in written.external:
        print(f"    {one.direction:5} {one.name} {one.dtype}[{', '.join(map(str, one.shape))}]")
    for note in recorded.notes:
        print(f"    note: {note}")
    print(f"    {_GOLDENS[written.golden]}")
    print(f"[extract] {os.path.relpath(root)}: scons replay JIT={shlex.quote(os.path.relpath(root))}")
    return 0


_GOLDENS = {
    "run": "data/out is what the kernels of this run made",
    "reference": "data/out is what the PyTorch reference made",
    "": "there is no data/out: the run ended in these tasks, and nothing else computes them",
}


if __name__ == "__main__":
    sys.exit(main())
