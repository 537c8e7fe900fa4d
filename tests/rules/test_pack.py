"""`scons pack` here, `pypto-build replay x.tar.zst` elsewhere: the same verdict, under the same options."""

from __future__ import annotations

import json
from pathlib import Path

from tests.rules.project import Project


def test_a_run_is_repeated_elsewhere(tmp_path: Path) -> None:
    project = Project(tmp_path / "here")
    project.write_kernel("plus_one", "in[i] + 1.05f")
    run = project.scons("pack", "JIT=_jit_chain", "RTOL=0.001", "KERNEL_FLAGS=-DNOTHING")
    archive = project.out / "_jit_chain.tar.zst"
    assert f"[pack] {archive.relative_to(project.root)}  (" in run.output, run.output
    assert "verdict mismatch)" in run.output, run.output
    assert run.status == 0  # a failed run is packed as well

    there = Project(tmp_path / "there")
    run = there.cli("replay", str(archive))
    assert "[pack] unpacked to " in run.output and run.status == 1, run.output
    assert "ended otherwise" not in run.output
    first, second = (json.loads((one.out / "verdict.json").read_text()) for one in (project, there))
    assert (second["rtol"], second["outputs"]) == (0.001, first["outputs"])
    assert "-DNOTHING" in (tmp_path / "there" / "build" / "compile_commands.json").read_text()

    run = there.cli("replay", str(archive), "--rtol", "0.1", "--atol", "0.1")
    assert run.status == 0 and "[pack] the packed run ended otherwise: mismatch\n" in run.output, run.output


def test_no_archive(tmp_path: Path) -> None:
    run = Project(tmp_path).cli("replay", "x.tar.zst")
    assert run.status == 2
    assert run.output == (
        "pypto-build: x.tar.zst: cannot be read: No such file or directory; name an archive written by 'scons pack'\n"
    )
