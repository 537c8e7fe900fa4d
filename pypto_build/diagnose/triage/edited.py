"""Finds the edits since the last pass, and whether the replay passes with them put back.

That is one replay of a copy, and one for each hunk where there are several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pypto_build.artifact import Artifact
from pypto_build.artifact.first_sight import Change
from pypto_build.artifact.last_pass import Edited, copies, edits
from pypto_build.diagnose.findings import Edit, Finding
from pypto_build.diagnose.triage.scratch import copy_artifact, passes

#: Hunks that are put back one by one.
_MOST_HUNKS = 6
_SHOWN = 6


def edited_findings(artifact: Artifact, build_dir: Path, words: Sequence[str]) -> tuple[list[Finding], list[Change]]:
    """The edit that explains the failure by itself, or all of them together, and everything that was edited. ``words``
    are those of a replay."""
    changed = copies(build_dir, artifact)
    hunks = list(edits(artifact, changed))
    if not hunks:
        return [], []
    scratch = build_dir / "triage" / "edited"
    if not _passes(artifact, scratch, {name: copy.read_bytes() for name, copy in changed.items()}, words):
        return [], [hunk.change for hunk in hunks]
    for hunk in hunks[:_MOST_HUNKS] if len(hunks) > 1 else ():
        if _passes(artifact, scratch, {hunk.change.path: hunk.before}, words):
            return [_finding([hunk], "with this put back it passes")], [one.change for one in hunks]
    says = "with this put back it passes" if len(hunks) == 1 else f"with these {len(hunks)} edits put back it passes"
    return [_finding(hunks, says)], [hunk.change for hunk in hunks]


def _passes(artifact: Artifact, scratch: Path, texts: Mapping[str, bytes], words: Sequence[str]) -> bool:
    """Return whether a copy of the artifact with these files passes."""
    place = copy_artifact(artifact, scratch)
    for name, text in texts.items():
        (place / name).unlink(missing_ok=True)
        (place / name).write_bytes(text)
    return passes(place, scratch, words)


def _finding(hunks: Sequence[Edited], says: str) -> Finding:
    first = hunks[0].change
    lines = [hunk.change for hunk in hunks if hunk.change.line]
    return Finding(
        "triage/edited",
        f"edited since the last pass, and {says}: {_words(first)}",
        first.path,
        first.line,
        "put it back, or look at it again",
        detail=tuple(f"edited too: {hunk.change.words}" for hunk in hunks[1:_SHOWN]),
        edits=tuple(
            Edit(one.path, one.line, one.new, one.old) for one in lines if "\n" not in one.old + one.new and one.new
        ),
    )


def _words(change: Change) -> str:
    if not change.line:
        return "it holds something else"
    return f"'{change.new or 'nothing'}' was '{change.old or 'nothing'}'"
