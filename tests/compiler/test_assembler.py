"""The choice of an assembler for a program, and ptoas' arguments for each platform."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pypto_build.compiler.__main__ import main
from pypto_build.compiler.assembler import assemble_unit
from pypto_build.pto import parse
from tests.compiler.programs import HEAD, kernel
from tests.pto.samples import module, tile

COPY = HEAD + kernel("pl.store(pl.load(x, [0, 0], [64, 64]), [0, 0], out)")
TILE = tile()
PLACED = module(f"  %a = arith.constant 0 : i64\n  %t = pto.alloc_tile addr = %a : {TILE}")
OPEN = module(f"  %t = pto.alloc_tile : {TILE}")


@pytest.fixture
def ptoas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in below PTOAS_ROOT that notes its flags and lets our assembler do the work."""
    path = tmp_path / "tools" / "bin" / "ptoas"
    path.parent.mkdir(parents=True)
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo stand-in && exit 0\n'
        f'shift 2; out=$1; shift; echo "$*" >> {path}.flags\n'
        f'echo "__global__ AICORE void k() {{}}" > "$out"\n',
        encoding="utf-8",
    )
    path.chmod(0o755)
    monkeypatch.setenv("PTOAS_ROOT", str(tmp_path / "tools"))
    monkeypatch.setenv("PATH", f"/usr/bin:/bin:{Path(sys.executable).parent}")
    return path


def flags(ptoas: Path) -> list[str]:
    """The flags of every call."""
    path = Path(f"{ptoas}.flags")
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@pytest.mark.parametrize(
    ("text", "platform", "expected"),
    [
        (PLACED, "a2a3sim", "--enable-insert-sync --pto-level=level3 --pto-arch a3"),
        (PLACED, "a2a3", "--enable-insert-sync --pto-level=level3 --pto-arch a3"),
        (PLACED, "a5", "--enable-insert-sync --pto-level=level3 --pto-arch a5"),
        (OPEN, "a5sim", "--enable-insert-sync --pto-level=level2 --pto-arch a5"),
    ],
)
def test_flags_of_the_platform(ptoas: Path, text: str, platform: str, expected: str) -> None:
    assert assemble_unit(parse(text), text, "k", platform, ptoas) == "__global__ AICORE void k() {}\n"
    assert flags(ptoas) == [expected]


def compile_copy(tmp_path: Path, *words: str) -> int:
    program = tmp_path / "p.py"
    program.write_text(COPY, encoding="utf-8")
    return main([str(program), "--output", str(tmp_path / "out"), "--no-golden", *words])


def test_hardware_finds_ptoas_and_simulated_platforms_use_our_own(ptoas: Path, tmp_path: Path) -> None:
    assert compile_copy(tmp_path) == 0
    assert flags(ptoas) == []
    assert compile_copy(tmp_path, "--platform", "a2a3") == 0
    assert compile_copy(tmp_path, "--ptoas", str(ptoas)) == 0
    assert flags(ptoas) == ["--enable-insert-sync --pto-level=level3 --pto-arch a3"] * 2
    assert compile_copy(tmp_path, "--platform", "a2a3", "--skip-ptoas") == 0
    assert len(flags(ptoas)) == 2


def test_no_assembler_for_hardware(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PTOAS_ROOT", raising=False)
    monkeypatch.setenv("PATH", "")
    assert compile_copy(tmp_path, "--platform", "a2a3") == 1
    assert capsys.readouterr().err == (
        "error: ptoas/k.pto: a2a3 needs ptoas: the built-in assembler inserts no pipeline synchronisation; "
        "set PTOAS_ROOT, or build for a2a3sim\n"
    )
    assert compile_copy(tmp_path, "--ptoas", "no-such-ptoas") == 2
    assert capsys.readouterr().err == (
        "error: PTOAS=no-such-ptoas: no such program; name the ptoas executable, or use PTOAS=own "
        "for the built-in assembler\n"
    )
    assert not (tmp_path / "out").exists()


def test_a_seed_gives_other_inputs(tmp_path: Path) -> None:
    program = tmp_path / "p.py"
    program.write_text(COPY + "@main.reference\ndef ref(x, out):\n    out[:] = x\n", encoding="utf-8")
    texts = []
    for words in ([], ["--seed", "7"]):
        assert main([str(program), "--output", str(tmp_path / "out"), "--no-golden", *words]) == 0
        texts.append((tmp_path / "out/golden.py").read_text(encoding="utf-8"))
    assert "torch.Generator().manual_seed(zlib.crc32(name.encode()))\n" in texts[0]
    assert texts[1] == texts[0].replace("(name.encode()))", "(name.encode()) + 7)")
