"""`python -m pypto_build.compiler PROGRAM.py --output DIR`: compile a program into an artifact.

    --platform P        a2a3sim (default), a5sim; a2a3 and a5 need ptoas
    --vintage V         2026-05, 2026-06 or 2026-08 (default): the generation of the upstream C++ API
    --skip-ptoas        stop after the .pto modules
    --ptoas EXE         assemble with ptoas; hardware platforms find it by $PTOAS_ROOT or PATH
    --dump-passes       write the program after each pass to passes_dump/
    --no-golden         do not compute data/in and data/out from the program's reference
    --seed N            of the random inputs
    --no-loc            leave the program's lines out of the .pto modules

Prints the changed files. Exit status 0, 1 when the program cannot be compiled, 2 for wrong usage, 4 when its reference
fails. DIR/compiled_files.json lists the files and the Python sources they came from.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from pypto_build.artifact.files import from_here
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.pto.assemble import HARDWARE
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.ptoas import find_ptoas
from pypto_build.toolchain.python import own_tool

from .driver import compile_file
from .emit_artifact import Options
from .errors import CompileError
from .vintages import TODAY, VINTAGES
from .write import write_dumps, write_files


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pypto_build.compiler", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", metavar="PROGRAM.py")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--platform", choices=tuple(PLATFORMS), default="a2a3sim")
    parser.add_argument("--vintage", choices=sorted(VINTAGES), default=TODAY.name)
    parser.add_argument("--skip-ptoas", action="store_true")
    parser.add_argument("--ptoas", default="", metavar="EXE")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--dump-passes", action="store_true")
    parser.add_argument("--no-golden", action="store_true")
    parser.add_argument("--no-loc", action="store_true")
    args = parser.parse_args(argv)
    try:
        options = Options(VINTAGES[args.vintage], args.skip_ptoas, _ptoas(args), not args.no_loc, args.seed)
        compiled = compile_file(args.program, args.output, args.platform, options, dump_passes=args.dump_passes)
        changed = write_files(args.output, compiled.files)
    except CompileError as error:
        shown = error.full.replace(f"{args.program}:", f"{from_here(args.program)}:")
        print(f"error: {shown}", file=sys.stderr)
        write_dumps(args.output, error.dumps)
        return 1
    except ToolchainError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {args.output}: cannot be written: {error.strerror or error}", file=sys.stderr)
        return 1
    for path in changed:
        print(f"[pto] wrote {from_here(args.output / path)}")
    if args.no_golden:
        return 0
    for root in compiled.roots:
        status = subprocess.run([*own_tool("pypto_build.compiler.golden"), args.output / root], check=False).returncode
        if status:
            return status
    return 0


def _ptoas(args: argparse.Namespace) -> Path | None:
    """Return the assembler that is requested, or that hardware needs; None for our own."""
    if args.skip_ptoas or not (args.ptoas or args.platform in HARDWARE):
        return None
    assembler = find_ptoas(args.ptoas, os.environ)
    return Path(assembler.path) if assembler else None


if __name__ == "__main__":
    sys.exit(main())
