"""Replays behind a store that is hostile: they end in time, with the right verdict, and read nothing of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.proof.test_remote_attacks import _ENTRIES, _HTTP, _OK, attacking, dripping
from tests.rules.project import Project, Run, Saved, run_of

#: What an edit of one kernel does where no store has it.
_ACTIONS = ["compile kernels/aiv/twice.cpp", "link kernels/aiv/twice.so", "run _jit_chain"]
_LARGEST = 64 << 20
_BUFFERED = 8 << 20  # bytes that were sent and not read
#: SCons, with less patience for a store: half a second in place of half a minute.
_IMPATIENT = "import pypto_build.proof.shared as s; s._PATIENCE_S = 0.5; from SCons.Script import main; main()"

_ANSWERS: dict[str, tuple[str, Callable[[], Iterator[bytes]]]] = {
    "http: a body without end": ("http", _HTTP["a body without end"]),
    "http: a byte now and then": ("http", dripping(_OK + b"\r\n")),
    "redis: a byte now and then": ("redis", dripping(b"$1000000000\r\n")),
}


def _edited(chain: Saved) -> Project:
    """The workspace after an edit that the store of its own has no results of."""
    project = chain.repeated()
    project.edit("kernels/aiv/twice.cpp", "2.0f * in[i]", "in[i] * 4.0f / 2.0f")
    return project


def test_entries_of_a_directory_that_are_no_files(chain: Saved, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    assert _edited(chain).replay(f"STORE_REMOTE={there}", "STORE_UPLOAD=wait").status == 0
    kinds = [_ENTRIES[kind] for kind in ("a pipe", "a device", "a terabyte", "a directory", "a circle")]
    entries = sorted(path for path in there.rglob("*") if path.is_file())
    assert len(entries) >= 2 * len(_ACTIONS)
    for number, path in enumerate(entries):
        path.unlink()
        kinds[number % len(kinds)](path)
    run = _edited(chain).replay(f"STORE_REMOTE={there}", "STORE_UPLOAD=no")
    assert (run.status, run.actions) == (0, _ACTIONS), run.output
    assert f"[store] {there} had 0 of 3 results that are not here; 3 damaged there and not used" in run.output


@pytest.mark.parametrize("name", _ANSWERS)
def test_answers_without_end(chain: Saved, name: str) -> None:
    scheme, pieces = _ANSWERS[name]
    project = _edited(chain)
    with attacking(pieces) as attacker:
        words = ["-Q", "VERBOSE=1", "replay", "JIT=_jit_chain", f"STORE_REMOTE={scheme}://{attacker.address}/0"]
        run = _impatient(project, *words, "STORE_UPLOAD=no")
        assert (run.status, run.actions) == (0, _ACTIONS), run.output
        assert f"[store] {scheme}://{attacker.address}/0 " in run.output, run.output
        assert "Traceback" not in run.output
        assert attacker.taken < _LARGEST + _BUFFERED


def _impatient(project: Project, *words: str) -> Run:
    command = [sys.executable, "-c", _IMPATIENT, *words]
    run = subprocess.run(
        command, cwd=project.root, env=project.environment(), capture_output=True, text=True, check=False, timeout=60
    )
    return run_of(run.returncode, run.stdout + run.stderr)
