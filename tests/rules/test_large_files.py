"""Files that are larger than anything of their kind end in one line, before they are read."""

from __future__ import annotations

import os

import pytest

from tests.rules.project import Project

_SPARSE = 8 << 40


@pytest.mark.parametrize(
    "name",
    [
        "golden.py",
        "kernel_config.py",
        "compiled_meta.json",
        "kernels/aiv/twice.cpp",
        "orchestration/chain.cpp",
        "data/in/x.pt",
        "data/out/y.pt",
    ],
)
def test_a_sparse_file_is_not_read(stocked: Project, name: str) -> None:
    with (stocked.artifact / name).open("ab") as file:
        os.truncate(file.fileno(), _SPARSE)
    run = stocked.quiet("replay", "JIT=_jit_chain")
    assert run.status == 2, run.output
    (line,) = run.output.splitlines()
    assert f"{name}: " in line
    assert f"has {_SPARSE:,} bytes, " in line
