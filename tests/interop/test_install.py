"""Binaries at the paths where PyPTO and pypto-lib expect them, and the record that validates them."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import pytest

from pypto_build.interop import install
from pypto_build.toolchain.elf import AARCH64
from tests.interop.rig import Rig, make_rig, put_binaries
from tests.rules.project import Project
from tests.toolchain.test_pins import git


def run(rig: Rig, clone: Path, *words: str) -> int:
    return install.main([str(rig.root), "--build-dir", str(rig.out), "--simpler", str(clone), *words])


def binaries(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for end in ("so", "bin", "o") for path in root.rglob(f"*.{end}"))


def test_everything_is_where_pypto_looks(tmp_path: Path, clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rig = make_rig(tmp_path)
    cache = rig.root / "cache"
    cache.mkdir()
    (cache / "incore_aic_mm.bin").write_bytes(b"as of May, and preferred to everything")
    assert run(rig, clone) == 0
    assert binaries(rig.root) == [
        "cache/incore_0_aic_mm_a2a3sim.bin",
        "cache/incore_1_aiv_scale_a2a3sim.bin",
        "kernels/aic/mm.so",
        "kernels/aiv/scale.so",
        "orchestration/scaled_mm.so",
    ]
    for name in ("kernels/aic/mm", "kernels/aiv/scale", "orchestration/scaled_mm"):
        source, library = rig.root / f"{name}.cpp", rig.root / f"{name}.so"
        assert library.read_bytes() == (rig.out / f"{name}.so").read_bytes()
        assert library.stat().st_mtime_ns >= source.stat().st_mtime_ns
    assert json.loads((cache / "binary_context.json").read_bytes()) == {
        "platform": "a2a3sim",
        "pto_isa_revision": git(clone / "build" / "pto-isa", "rev-parse", "HEAD"),
        "runtime_name": "tensormap_and_ringbuffer",
        "runtime_revision": git(clone, "rev-parse", "HEAD"),
        "schema": 1,
    }
    note = (
        "PyPTO adds two #include lines to orchestration/scaled_mm.cpp when it first runs it; install again after that"
    )
    assert capsys.readouterr().out.splitlines() == [
        f"[install] 5 binaries for a2a3sim -> {rig.root}",
        f"[install] note: {note}",
    ]


def test_hardware(tmp_path: Path, clone: Path) -> None:
    """The linked kernel is beside the source, its machine code in the cache."""
    rig = make_rig(tmp_path)
    for name in ("aic/mm", "aiv/scale"):
        (rig.out / "kernels" / f"{name}.elf").write_bytes(b"linked")
        (rig.out / "kernels" / f"{name}.bin").write_bytes(b"code")
    orchestration = bytearray((rig.out / "orchestration" / "scaled_mm.so").read_bytes())
    orchestration[18:20] = struct.pack("<H", AARCH64)
    (rig.out / "orchestration" / "scaled_mm.so").write_bytes(orchestration)
    assert run(rig, clone, "--platform", "a2a3") == 0
    assert binaries(rig.root) == [
        "cache/incore_0_aic_mm_a2a3.bin",
        "cache/incore_1_aiv_scale_a2a3.bin",
        "kernels/aic/mm.o",
        "kernels/aiv/scale.o",
        "orchestration/scaled_mm.so",
    ]
    assert (rig.root / "kernels" / "aic" / "mm.o").read_bytes() == b"linked"
    assert (rig.root / "cache" / "incore_0_aic_mm_a2a3.bin").read_bytes() == b"code"
    # The binaries of one platform are removed when those of another are installed.
    put_binaries(rig.out)
    assert run(rig, clone) == 0
    assert [name for name in binaries(rig.root) if name.endswith(".o") or "a2a3.bin" in name] == []


def test_what_pypto_would_drop_at_once(tmp_path: Path, clone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rig = make_rig(tmp_path)
    worker = clone / "simpler" / "worker.py"
    worker.write_text(worker.read_text() + "# mine\n")
    assert run(rig, clone) == 2
    message = (
        "has uncommitted changes, so PyPTO would compile again instead of using these binaries; use a clean checkout"
    )
    assert capsys.readouterr().err == f"{clone}: {message}\n"
    git(clone, "checkout", "-q", ".")
    (clone / "build" / "pto-isa" / ".git").rename(tmp_path / "gone")
    assert run(rig, clone) == 2
    message = (
        "is not a checkout of a known revision, so PyPTO would compile again instead of using these "
        "binaries; use a clean checkout"
    )
    assert capsys.readouterr().err == f"{clone}/build/pto-isa: {message}\n"
    pto, assembled = rig.root / "ptoas" / "mm.pto", rig.root / "ptoas" / "mm.cpp"
    pto.parent.mkdir(exist_ok=True)
    for path in (pto, assembled):
        path.touch()
    os.utime(assembled, (1, 1))
    assert run(rig, clone) == 2
    assert capsys.readouterr().err.startswith(f"{pto}: is newer than what was assembled from it")
    assert binaries(rig.root) == []


def test_through_scons(project: Project, clone: Path) -> None:
    ran = project.scons("install", "JIT=_jit_chain", f"SIMPLER={clone}")
    assert ran.status == 0, ran.output
    assert ran.actions == [
        "compile kernels/aiv/plus_one.cpp",
        "compile kernels/aiv/twice.cpp",
        "compile orchestration/chain.cpp",
        "link kernels/aiv/plus_one.so",
        "link kernels/aiv/twice.so",
        "link orchestration/chain.so",
        "sign kernel_config.py",
    ]
    assert f"[install] 5 binaries for a2a3sim -> {project.artifact}" in ran.output
    before = {path: path.stat().st_mtime_ns for path in project.artifact.rglob("*.so")}
    ran = project.replay("RUNTIME=simpler", "SKIP_COMPILE=1", f"SIMPLER={clone}")
    assert ran.status == 0 and "[RUN] PASS" in ran.output and "[cpp->.so]" not in ran.output, ran.output
    assert {path: path.stat().st_mtime_ns for path in project.artifact.rglob("*.so")} == before


def test_warnings_of_simplers_own_headers_are_details(project: Project, clone: Path) -> None:
    header = clone / "src/a2a3/runtime/tensormap_and_ringbuffer/runtime/tensor.h"
    header.write_text(f"#warning of simpler itself\n{header.read_text()}")
    words = ("build", "JIT=_jit_chain", "RUNTIME=simpler", f"SIMPLER={clone}")
    run = project.quiet(*words)
    assert (run.status, "of simpler itself" in run.output) == (0, False), run.output
    project.edit("kernels/aiv/twice.cpp", "2.0f *", "2.0f * nothing *")
    run = project.quiet(*words)  # one that fails is told of as a whole
    assert (run.status, "of simpler itself" in run.output, "nothing" in run.output) == (2, True, True)
