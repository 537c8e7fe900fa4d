"""Compiles the runtime, the libraries of proof/ and all examples with warnings as errors, by each compiler.

    python -m tests.machines.warnings [--compiler NAME ...] [--root DIR]

Prints a line a compiler; exit status 1 if one complains.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pypto_build.facts.platforms import PLATFORMS
from pypto_build.proof import looking, witness
from pypto_build.runtime.build import INCLUDE_DIR, compile_command, units, write_unit
from pypto_build.toolchain.host import HostCompiler, kernel_flags, orchestration_flags
from tests.machines.__main__ import compilers
from tests.machines.machine import CLONE, Machine

_STRICT = ("-fsyntax-only", "-Werror")


def commands(compiler: HostCompiler, machine: Machine) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the command of every compilation; texts of the runtime are written for it."""
    for unit in units():
        directory = machine.work / unit
        directory.mkdir(exist_ok=True)
        write_unit(unit, directory)
        text = machine.inside / unit / f"{unit}.cpp"
        yield f"runtime, {unit}", [*compile_command(unit, text, Path("/dev/null"), compiler.path), *_STRICT]
    for source in (witness.SOURCE, looking.SOURCE):
        yield source.name, [compiler.path, "-std=c++17", "-Wall", "-Wextra", *_STRICT, str(source)]
    of = PLATFORMS["a2a3sim"]
    for source in sorted((CLONE / "examples").glob("*/_jit_*/**/*.cpp")):
        core = source.parent.name
        if core == "ptoas":  # output of the assembler, from which bodies of kernels are taken
            continue
        flags = orchestration_flags(compiler, of) if core == "orchestration" else kernel_flags(compiler, of, core)
        name = str(source.relative_to(CLONE))
        yield name, [compiler.path, *flags, *_STRICT, f"-I{INCLUDE_DIR}", str(source)]


def main() -> int:
    """Compile all of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.machines.warnings", description=main.__doc__)
    parser.add_argument("--compiler", action="append", metavar="NAME", help="a compiler; all of the machine's")
    parser.add_argument("--root", type=Path, metavar="DIR", help="a directory with another distribution")
    options = parser.parse_args()
    status = 0
    with tempfile.TemporaryDirectory(prefix="pypto-warnings-") as work:
        machine = Machine(options.root, Path(work))
        for name in options.compiler or compilers(options.root):
            family, _, major = name.partition("-")
            failed = count = 0
            for what, command in commands(HostCompiler(name, family, name, int(major)), machine):
                done, output = machine.run(command, machine.inside)
                count += 1
                if done or re.search(r"\bwarning:", output):
                    failed += 1
                    print(f"{name}: {what}\n{output}", flush=True)
            print(f"{name}: {count - failed} of {count} units without a warning", flush=True)
            status |= bool(failed)
    return status


if __name__ == "__main__":
    sys.exit(main())
