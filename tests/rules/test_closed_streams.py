"""Commands whose standard streams are closed: no file of ours gets their numbers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.rules.project import Project

_LONGEST_S = 120


def _run(project: Project, closed: tuple[int, ...], *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=project.root,
        env=project.environment(),
        preexec_fn=lambda: list(map(os.close, closed)),
        capture_output=True,
        timeout=_LONGEST_S,
        check=False,
    )


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize("tool", ["SCons", "pypto_build.cli", "pypto_build.resident.client"])
def test_a_replay_with_closed_streams(stocked: Project, closed: tuple[int, ...], tool: str) -> None:
    words = [
        tool,
        *(["-Q"] if tool == "SCons" else []),
        "replay",
        "JIT=_jit_chain" if tool == "SCons" else "_jit_chain",
        "FORCE=1",
    ]
    run = _run(stocked, closed, *words, *(["--no-server"] if "client" in tool else []))
    assert run.returncode == 0, run
    assert stocked.verdict()["status"] == "pass"
    assert (stocked.out / ".lock").read_text().isdecimal()
    stocked.edit("kernels/aiv/twice.cpp", "2.0f", "2.5f")
    run = _run(stocked, closed, *words, *(["--no-server"] if "client" in tool else []))
    assert run.returncode == (2 if tool == "SCons" else 1), run
    assert stocked.verdict()["status"] == "mismatch"
