"""`pypto-build init [DIR]`: a repository of kernels to begin with: SConstruct, a program, CI, and what editors need.

Files that are there stay as they are. `scons test` passes in the new repository.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pypto_build.editor.setup.__main__ import PARTS, perform
from pypto_build.editor.setup.plan import Step, current

_SCONSTRUCT = '''\
"""`scons test` compiles, replays and compares; `scons` alone prints what else there is."""

from pypto_build.rules import pypto

env = Environment(tools=[pypto])

program = env.PtoProgram(name="scaled_add", source="programs/scaled_add.py")
env.ReplayTest(name="scaled_add_test", artifact=program, platform=["a2a3sim", "a5sim"])
'''
_PROGRAM = '''\
"""c = 2 * a + b, one kernel, one task for each block of rows."""

import pypto_build.compiler.language as pl

ROWS, COLS, BLOCK = 128, 64, 64
Matrix = pl.Tensor[[ROWS, COLS], pl.FP32]


@pl.jit.incore
def add_block(a: Matrix, b: Matrix, c: pl.Out[Matrix], row: pl.Scalar[pl.INDEX]):
    x = pl.load(a, [row, 0], [BLOCK, COLS])
    y = pl.load(b, [row, 0], [BLOCK, COLS])
    pl.store(x * 2.0 + y, [row, 0], c)


@pl.jit
def scaled_add(a: Matrix, b: Matrix, c: pl.Out[Matrix]):
    for row in pl.range(0, ROWS, BLOCK):
        add_block(a, b, c, row)


@scaled_add.reference
def reference(a, b, c):
    c[:] = 2 * a + b
'''
_FILES = {
    "SConstruct": _SCONSTRUCT,
    "programs/scaled_add.py": _PROGRAM,
    ".gitignore": "build/\nbuild_output/\nnode_modules/\n__pycache__/\n",
}


def steps_of(top: Path) -> list[Step]:
    """Return the steps of a repository: its own files, and all parts of `setup` for a workspace."""
    files = [top / name for name in _FILES]
    own = [
        Step(path, "new", text) if current(path) is None else Step(path, "yours, left alone")
        for path, text in zip(files, _FILES.values(), strict=True)
    ]
    return own + [step for part, _ in PARTS.values() for step in part(top)]


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0, or 2 for wrong usage and for files that cannot be written."""
    options = argparse.ArgumentParser(prog="pypto-build init", description=(__doc__ or "").split("\n\n", 1)[1])
    options.add_argument("directory", nargs="?", type=Path, default=Path(), metavar="DIR", help="the repository (here)")
    top: Path = options.parse_args(argv).directory
    try:
        perform(steps_of(top), write=True)
    except OSError as error:
        print(f"pypto-build init: {error.filename}: {error.strerror or error}", file=sys.stderr)
        return 2
    print(f"next: {'' if top == Path() else f'cd {top}; '}scons test")
    return 0


if __name__ == "__main__":
    sys.exit(main())
