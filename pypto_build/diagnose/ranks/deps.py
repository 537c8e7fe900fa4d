"""`scons deps` on a distributed artifact: dispatches of all ranks, messages between them, what decided when the run
ended; with `RANK=` the tasks of one.

python -m pypto_build.diagnose.ranks.deps ARTIFACT_DIR --build-dir OUT [--rank 0/d1] [--task 12] [--export trace]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.files import write_bytes
from pypto_build.diagnose.console import command, one_of
from pypto_build.diagnose.deps.__main__ import parser as parser_of_one
from pypto_build.diagnose.deps.__main__ import run_deps
from pypto_build.diagnose.ranks.export import dot, trace
from pypto_build.diagnose.ranks.run import RanksRun, add_chip_options, add_rank_options
from pypto_build.diagnose.ranks.text import summary_lines

#: What one file can hold of all ranks.
EXPORTS = ("dot", "trace")


@command("deps", parser_of_one, add_rank_options, add_chip_options)
def main(given: argparse.Namespace) -> int:
    """Print or write what was asked for; 0, 1 where --to finds no order, 2 where there are no records."""
    run = RanksRun(given.root, given.build_dir or given.root, given.platform)
    if not given.rank:
        if given.task or given.to:
            option = f"TASK={given.task}" if given.task else f"TO={given.to}"
            raise ArtifactError(option, "is a task of one dispatch", "name that with RANK=, such as RANK=0/d0")
        if given.export:
            print(_export(run, given.export, given.output))
        else:
            print("\n".join(summary_lines(run)))
        return 0
    rows = run.choose(given.rank)
    if len(rows) > 1 and (given.task or given.to or given.output):
        listed = ", ".join(f"RANK={row.rank}/d{row.index}" for row in rows)
        raise ArtifactError(f"RANK={given.rank}", f"is {len(rows)} dispatches", f"name one: {listed}")
    status = 0
    for place, row in enumerate(rows):
        if not given.export:
            print(("\n" if place else "") + f"{run.title(row)}, submitted at {run.submitted_at(row)}")
        one = argparse.Namespace(**{**vars(given), "root": run.program_of(row), "build_dir": run.directory_of(row)})
        status = status or run_deps(one)
    return status


def _export(run: RanksRun, form: str, output: Path | None) -> Path:
    if form == "html":
        raise ArtifactError("EXPORT=html", "is the graph of one dispatch", "name it with RANK=; 'scons report' has all")
    one_of("EXPORT", form, EXPORTS)
    name, text = ("ranks.dot", dot(run)) if form == "dot" else ("trace.json", trace(run))
    path = output or run.directory / name
    write_bytes(path, text.encode())
    return path


if __name__ == "__main__":
    sys.exit(main())
