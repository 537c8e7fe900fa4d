"""The supported matrix as sessions of nox: `nox` tries each Python with each compiler, `nox -k "3.12 and g++-11"` one.

Those whose interpreter or compiler is not installed are skipped, and named. Others try the oldest dependencies, the
constraints, wheels, and warnings of compilers; `nox -s oldest` and the like are one of them.
"""

from __future__ import annotations

import shutil

import nox

from tests.compilers import COMPILERS

nox.options.error_on_missing_interpreters = False
PYTHONS = [f"3.{minor}" for minor in range(10, 15)]


PROCESSORS = ["x86_64", "aarch64"]


@nox.session(python=PYTHONS)
@nox.parametrize("compiler", COMPILERS, ids=COMPILERS)
def cell(session: nox.Session, compiler: str) -> None:
    """README's first command and the loop after it."""
    if not shutil.which(compiler):
        session.skip(f"{compiler} is not installed")
    session.run("python", "-m", "tests.machines", "--python", "python", "--compiler", compiler)


@nox.session(python=PYTHONS)
def oldest(session: nox.Session) -> None:
    """The same with the oldest dependencies that are allowed, those that have wheels for this Python."""
    session.install("uv")
    oldest = f"{session.create_tmp()}/oldest.txt"
    words = ("--resolution", "lowest-direct", "--python-version", str(session.python), "-o", oldest)
    session.run("uv", "pip", "compile", "-q", "--only-binary", ":all:", *words, "pyproject.toml")
    session.run("python", "-m", "tests.machines", "--python", "python", "--compiler", "g++", "--constraints", oldest)


@nox.session
def constraints(session: nox.Session) -> None:
    """The versions of constraints.txt exist as wheels for each Python and processor."""
    session.install("uv")
    for python in (*PYTHONS, "3.11.2"):  # Debian 12 has that one, and not every package's newest release takes it
        for processor in PROCESSORS:
            words = ("--python-version", python, "--python-platform", f"{processor}-manylinux_2_31")
            words = (*words, "--only-binary", ":all:", "-c", "constraints.txt", "--extra", "dev", "-o", "/dev/null")
            session.run("uv", "pip", "compile", "-q", *words, "pyproject.toml")


@nox.session(python=PYTHONS)
def wheels(session: nox.Session) -> None:
    """Wheel and source archive, installed without a compiler, twice, newer and older."""
    session.run("python", "-m", "tests.machines.wheels", "--python", "python")


@nox.session(venv_backend="none")
def warnings(session: nox.Session) -> None:
    """The runtime, what watches tools, and the examples compile without a warning by every compiler."""
    session.run("python", "-m", "tests.machines.warnings")
