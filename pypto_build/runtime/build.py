"""The embedded runtime's extension module: its sources, headers and the command lines that build it.

Build rules import this file, so it loads fast and imports only what names files. Run by hand, ``python -m
pypto_build.runtime.build OUT_DIR`` compiles and links the module there and prints its path.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

RUNTIME_DIR = Path(__file__).resolve().parent
FACTS_DIR = RUNTIME_DIR.parent / "facts"
SOURCE_DIR = RUNTIME_DIR / "src"
INCLUDE_DIR = RUNTIME_DIR / "include"
MODULE_NAME = "_embedded"
PYTHON_DIR = SOURCE_DIR / "binding"

COMPILE_FLAGS = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-pthread")
#: Code that decides a run's time is optimized. The translation of Python's values is not: pybind11's templates take
#: seven seconds longer with -O2, which a new user waits for, and a run passes through them once.
OPTIMIZATION = {"library": "-O2", "python": "-O0"}
LINK_FLAGS = ("-shared", "-pthread")
LINK_LIBRARIES = ("-ldl",)


class BuildError(Exception):
    """The extension module cannot be built; the message is one line that says what to do."""


def module_filename() -> str:
    """Return the file name of the module for this interpreter, like ``_embedded.cpython-311-x86_64-linux-gnu.so``."""
    return MODULE_NAME + EXTENSION_SUFFIXES[0]


def sources() -> list[Path]:
    """Return the module's source files."""
    return sorted(SOURCE_DIR.rglob("*.cpp"))


def units() -> dict[str, list[Path]]:
    """Return the module's translation units, the slowest first: each compiles several sources as one text.

    Most of the compile time of a small source goes into the standard headers, which are then read once a unit.
    """
    python = [path for path in sources() if path.parent == PYTHON_DIR]
    return {"python": python, "library": [path for path in sources() if path not in python]}


def write_unit(unit: str, directory: Path) -> Path:
    """Write the text of a unit and the generated header, for a compiler that looks in SOURCE_DIR and ``directory``."""
    from pypto_build.runtime.layouts import layouts_header

    (directory / "layouts.h").write_text(layouts_header(), encoding="utf-8")
    text = directory / f"{unit}.cpp"
    text.write_text("".join(f'#include "{path.relative_to(SOURCE_DIR)}"\n' for path in units()[unit]), encoding="utf-8")
    return text


def headers() -> list[Path]:
    """Return every header of this package that the module includes, and the tables that generate one of them."""
    tables = (RUNTIME_DIR / "layouts.py", FACTS_DIR / "layouts.py", FACTS_DIR / "faults.py")
    return sorted([*SOURCE_DIR.rglob("*.h"), *(INCLUDE_DIR / "pypto").glob("*.h"), *INCLUDE_DIR.glob("*.h"), *tables])


def python_include_dirs(packages: str = "") -> list[Path]:
    """Return the include directories of Python and pybind11, the latter in ``packages`` if given.

    Raises:
        BuildError: one of them is not installed.
    """
    import sysconfig

    python = Path(sysconfig.get_path("include"))
    if not (python / "Python.h").is_file():
        raise BuildError(f"{python / 'Python.h'}: not found; install python3-dev, or your Python's development package")
    if packages := packages or packages_dir():
        return [python, Path(packages, "pybind11", "include")]
    raise BuildError("pybind11: not installed; run pip install pybind11")


def packages_dir() -> str:
    """Return the directory of installed packages that contains pybind11; empty if it is not installed."""
    return next((path for path in sys.path if Path(path, "pybind11", "include").is_dir()), "")


def compile_command(unit: str, source: Path, output: Path, compiler: str = "g++", packages: str = "") -> list[str]:
    """Return the command that compiles a unit to an object file; it is independent of the installation directory.

    Raises:
        BuildError: Python's headers or pybind11 are missing, and the unit needs them.
    """
    includes = [f"-I{directory}" for directory in (INCLUDE_DIR, SOURCE_DIR, source.parent)]
    includes.append(f"-ffile-prefix-map={RUNTIME_DIR}=.")
    if unit == "python":
        for directory in python_include_dirs(packages):
            includes += ["-isystem", str(directory), f"-ffile-prefix-map={directory}=."]
    return [compiler, OPTIMIZATION[unit], *COMPILE_FLAGS, *includes, "-c", str(source), "-o", str(output)]


def link_command(objects: Sequence[Path], output: Path, compiler: str = "g++") -> list[str]:
    """Return the command that links the object files to the module."""
    return [compiler, *LINK_FLAGS, *map(str, objects), *LINK_LIBRARIES, "-o", str(output)]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}: failed\n{done.stderr.strip()}")


def build(out_dir: Path, compiler: str = "g++", jobs: int | None = None) -> Path:
    """Compile and link the module in ``out_dir``; returns its path. Raises BuildError as ``build_module`` does."""
    module = out_dir / module_filename()
    build_module(module, compiler, jobs)
    return module


def build_module(module: Path, compiler: str = "g++", jobs: int | None = None, packages: str = "") -> None:
    """Compile and link ``module``, which appears by one rename; ``packages`` is the directory that contains pybind11.

    Raises:
        BuildError: a tool or header is missing, or a command failed.
    """
    from concurrent.futures import ThreadPoolExecutor

    module.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=module.parent, prefix=".build.") as directory:
        objects = {unit: Path(directory, f"{unit}.o") for unit in units()}
        for unit in objects:
            Path(directory, unit).mkdir()

        def compile_one(unit: str) -> None:
            text = write_unit(unit, Path(directory, unit))
            _run(compile_command(unit, text, objects[unit], compiler, packages))

        with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
            list(pool.map(compile_one, objects))
        partial = Path(directory, module.name)
        _run(link_command(list(objects.values()), partial, compiler))
        partial.replace(module)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line: build the module into a directory."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m pypto_build.runtime.build", description=main.__doc__)
    parser.add_argument("out_dir", type=Path, nargs="?", default=Path(), help="the directory of the module")
    parser.add_argument("--module", type=Path, help="the module itself, in place of OUT_DIR")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--packages", default="", help="where pybind11 is installed, for a Python without its packages")
    parser.add_argument("--quiet", action="store_true", help="do not print the module's path")
    options = parser.parse_args(argv)
    try:
        module = options.module or options.out_dir / module_filename()
        build_module(module, options.compiler, options.jobs, options.packages)
        if not options.quiet:
            print(module)
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
