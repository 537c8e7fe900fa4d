"""The supported matrix as sessions of nox: `nox` tries each Python with each compiler, `nox -k "3.12 and g++-11"` one.

Those whose interpreter or compiler is not installed are skipped, and named.
"""

from __future__ import annotations

import shutil

import nox

from tests.compilers import COMPILERS

nox.options.error_on_missing_interpreters = False
PYTHONS = [f"3.{minor}" for minor in range(10, 15)]


@nox.session(python=PYTHONS)
@nox.parametrize("compiler", COMPILERS, ids=COMPILERS)
def cell(session: nox.Session, compiler: str) -> None:
    """README's first command and the loop after it."""
    if not shutil.which(compiler):
        session.skip(f"{compiler} is not installed")
    session.run("python", "-m", "tests.machines", "--python", "python", "--compiler", compiler)
