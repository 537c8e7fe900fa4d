"""The PyTorch reference from SCons: its text, a replay by it, and the walk beside it."""

from __future__ import annotations

from pathlib import Path

from tests.rules.project import Project


def test_reference_targets(project: Project) -> None:
    project.use_example("_jit_softmax")
    out = Path("build/a2a3sim/_jit_softmax")
    written = project.scons("torch", "JIT=_jit_softmax")
    assert written.status == 0, written.output
    assert f"[torch] {out}/torch/softmax_rows.py" in written.output
    replayed = project.scons("replay", "JIT=_jit_softmax", "RUNTIME=torch")
    assert replayed.status == 0, replayed.output
    assert "PASS" in replayed.output
    walked = project.scons("diverge", "JIT=_jit_softmax")
    assert walked.status == 0, walked.output
    assert "[diverge] _jit_softmax: nothing found\n" in walked.output
