"""Builds a checkout of simpler in place, without installing it: its extension module, and its runtimes.

python -m pypto_build.toolchain.simpler_build CHECKOUT --python PYTHON

The interpreter needs nanobind and numpy's usual company; cmake and ninja are looked for on PATH and beside it. The
simulators' runtimes are built, and the hardware's where ASCEND_HOME_PATH is set.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.python import python_code

_NANOBIND = "import nanobind; print(nanobind.cmake_dir())"
_SIMULATORS = "build_package_sim"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m pypto_build.toolchain.simpler_build", allow_abbrev=False)
    parser.add_argument("checkout", type=Path, help="the checkout")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that will import it (this one)")
    options = parser.parse_args(argv)
    try:
        build(options.checkout.resolve(), options.python)
    except ToolchainError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def build(source: Path, python: str) -> None:
    """Configure and build. Raises `ToolchainError` for a missing program or a command that failed."""
    nanobind = subprocess.run(python_code(python, _NANOBIND), capture_output=True, text=True, check=False)
    if nanobind.returncode:
        raise ToolchainError(
            f"{python}: the package nanobind is missing, which is needed to build simpler; run pip install nanobind"
        )
    path = os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", os.defpath)])
    cmake, ninja = (shutil.which(name, path=path) for name in ("cmake", "ninja"))
    if cmake is None:
        raise ToolchainError("cmake: not found on PATH; install it to build simpler")
    build_dir = source / "build" / "pypto-build"
    words = [cmake, "-S", str(source), "-B", str(build_dir), *(["-G", "Ninja"] if ninja else [])]
    words += [
        f"-DPython_EXECUTABLE={python}",
        f"-Dnanobind_DIR={nanobind.stdout.strip()}",
        "-DCMAKE_BUILD_TYPE=Release",
    ]
    _run(words, source, path)
    named = _SIMULATORS in (source / "CMakeLists.txt").read_text(encoding="utf-8", errors="replace")
    target = ["--target", _SIMULATORS] if named and not os.environ.get("ASCEND_HOME_PATH") else []
    _run([cmake, "--build", str(build_dir), "--parallel", str(len(os.sched_getaffinity(0))), *target], source, path)


def _run(words: Sequence[str], source: Path, path: str) -> None:
    """Run a command of the build; what it prints is shown if it fails."""
    run = subprocess.run(
        words,
        cwd=source,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    if run.returncode:
        print(run.stdout, end="")
        raise ToolchainError(f"{words[0]}: failed with exit status {run.returncode}")


if __name__ == "__main__":
    sys.exit(main())
