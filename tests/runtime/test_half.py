"""Scalars of type half have the same bits from every compiler, whether it has such a type or a class stands for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pypto_build.facts.platforms import PLATFORMS
from pypto_build.runtime.build import INCLUDE_DIR
from pypto_build.toolchain.host import find_compiler, kernel_flags
from tests.compilers import COMPILERS

#: Of the results of two million rounds of every operation, the NaNs of one kind.
DIGEST = "ed52a272"
_PROGRAM = Path(__file__).with_name("half.cpp")


@pytest.mark.parametrize("name", COMPILERS)
def test_operations_on_halves_have_the_same_bits(name: str, tmp_path: Path) -> None:
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    compiler = find_compiler(name)
    flags = [flag for flag in kernel_flags(compiler, PLATFORMS["a2a3sim"], "aiv") if flag != "-fPIC"]
    program = tmp_path / "half"
    command = [compiler.path, *flags, "-Wall", "-Wextra", "-Werror", "-I", str(INCLUDE_DIR)]
    command += [str(_PROGRAM), "-o", str(program)]
    subprocess.run(command, check=True)
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == f"{DIGEST}\n"
