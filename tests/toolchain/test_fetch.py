"""`scons fetch`: pinned revisions from their address, named ones from local clones, without touching those."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pypto_build.toolchain import fetch, pins
from pypto_build.toolchain.pins import Pin
from tests.rules.project import Project
from tests.toolchain.test_pins import git


@pytest.fixture
def origins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Repositories of both projects where the pins say they are; simpler wants the first of two commits of pto-isa."""
    for name in ("pto-isa", "simpler"):
        origin = tmp_path / "origin" / name
        origin.mkdir(parents=True)
        git(origin, "init", "-q")
        if name == "simpler":
            (origin / "pto_isa.pin").write_text(git(origin.with_name("pto-isa"), "rev-parse", "HEAD~1") + "\n")
        for number in range(2):
            (origin / "number").write_text(str(number))
            git(origin, "add", "-A")
            git(origin, "commit", "-q", "-m", f"{name} {number}")
    monkeypatch.setenv("PYPTO_BUILD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "origin"


def set_pins(monkeypatch: pytest.MonkeyPatch, origins: Path, revision: str) -> None:
    rows = {name: Pin(revision, str(origins / name)) for name in ("simpler", "pto-isa")}
    monkeypatch.setattr(pins, "read_pins", lambda: rows)


def test_the_pinned_ones(origins: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    set_pins(monkeypatch, origins, "main")
    assert fetch.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"[fetch] simpler from {origins}/simpler"
    assert " simpler 1 (from " in lines[1] and " pto-isa 0 (from " in lines[3]
    # What is here needs no source, which may be gone.
    set_pins(monkeypatch, origins, git(origins / "simpler", "rev-parse", "HEAD"))
    shutil.rmtree(origins)
    assert fetch.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and all("(from the cache)" in line for line in lines)


def test_from_local_clones(
    origins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_pins(monkeypatch, tmp_path / "nowhere", "main")
    (origins / "simpler" / "number").write_text("edited")
    words = [f"--simpler={origins}/simpler@main~1", f"--isa={origins}/pto-isa@main"]
    assert fetch.main(words) == 0
    places = [Path(line.rpartition(" ")[2]) for line in capsys.readouterr().out.splitlines()]
    assert [(checkout / "number").read_text() for checkout in places] == ["0", "1"]
    assert (origins / "simpler" / "number").read_text() == "edited"
    assert git(origins / "simpler", "worktree", "list").count("\n") == 0
    assert fetch.main([]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"{tmp_path}/nowhere/simpler: the clone cannot be fetched: ")
    assert error.endswith("; name a clone or an address of simpler\n")


def test_through_scons(origins: Path, tmp_path: Path) -> None:
    project = Project(tmp_path / "workspace")
    ran = project.scons("fetch", f"SIMPLER={origins}/simpler@main", f"PTO_ISA={origins}/pto-isa@nothing")
    assert "[fetch] simpler " in ran.output
    message = (
        f"PTO_ISA={origins}/pto-isa@nothing: revision nothing is not in {origins}/pto-isa; git log there lists what"
    )
    assert message in ran.output and ran.status == 2
