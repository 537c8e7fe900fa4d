"""Kernels of the usual build carry nothing of the checked one; those of the checked one say what they are."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from pypto_build.facts.platforms import PLATFORMS
from pypto_build.rules.variants import CHECKED
from pypto_build.toolchain.host import INCLUDE_DIR, find_compiler, kernel_flags

KERNEL = Path(__file__).resolve().parents[2] / "examples/artifacts/_jit_softmax/kernels/aiv/softmax_rows.cpp"
HOOKS = Path("pto/detail/check.hpp")
_NO_HOOKS = """#pragma once
#include "plain.hpp"
#define PTO_CHECK(...)
#define PTO_CHECK_ORDER(...)
#define PTO_CHECK_CLEAN(...)
"""


def _assembly(include: Path, *more: str) -> str:
    compiler = find_compiler()
    flags = kernel_flags(compiler, PLATFORMS["a2a3sim"], "aiv")
    argv = [compiler.path, *flags, *more, "-g0", f"-I{include}", "-S", str(KERNEL), "-o", "-"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@cache
def usual() -> str:
    """The kernel's assembly as it is usually built."""
    return _assembly(INCLUDE_DIR)


def test_usual_kernels_have_no_hooks() -> None:
    assert "pypto_checked_kernel" not in usual()
    assert "TROWMAX" not in usual().replace("_ZN3pto", "")


def test_usual_kernels_are_the_same_without_the_hooks(tmp_path: Path) -> None:
    """Headers in which the hooks stand for nothing at all give the same code, instruction for instruction."""
    for path in sorted(INCLUDE_DIR.rglob("*")):
        if path.is_file():
            copied = tmp_path / path.relative_to(INCLUDE_DIR)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(path.read_bytes())
    (tmp_path / HOOKS).write_text(_NO_HOOKS)
    assert _assembly(tmp_path) == usual()


def test_checked_kernels_have_them() -> None:
    checked = _assembly(INCLUDE_DIR, *CHECKED.kernel_flags)
    assert "pypto_checked_kernel" in checked
    assert '"TROWMAX"' in checked
