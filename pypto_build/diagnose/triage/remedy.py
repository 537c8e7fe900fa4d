"""Tries the edits that a finding proposes in a copy of the artifact."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pypto_build.artifact import Artifact
from pypto_build.artifact.files import read_source
from pypto_build.diagnose.findings import Edit
from pypto_build.diagnose.triage.scratch import copy_artifact, passes


def try_edits(artifact: Artifact, edits: Sequence[Edit], scratch: Path, words: Sequence[str]) -> bool | None:
    """Return True if a copy with the edits passes. Returns None if they are not edits of the artifact or do not fit its
    lines, so that nothing was tried.

    ``words`` are the options of a replay.
    """
    if not all(_is_inside(edit.path) for edit in edits):
        return None
    texts: dict[str, list[str]] = {}
    for edit in edits:
        path = artifact.root / edit.path
        if edit.path not in texts:
            if not path.is_file():
                return None
            texts[edit.path] = read_source(path).splitlines(keepends=True)
        lines = texts[edit.path]
        if not 0 < edit.line <= len(lines) or edit.old not in lines[edit.line - 1]:
            return None
        lines[edit.line - 1] = lines[edit.line - 1].replace(edit.old, edit.new, 1)
    if not texts:
        return None
    copy = copy_artifact(artifact, scratch)
    for name, lines in texts.items():
        (copy / name).unlink()
        (copy / name).write_text("".join(lines), encoding="utf-8")
    return passes(copy, scratch, words)


def _is_inside(name: str) -> bool:
    return not Path(name).is_absolute() and ".." not in Path(name).parts
