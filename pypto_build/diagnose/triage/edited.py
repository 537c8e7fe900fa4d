"""Finds edits, and checks whether the replay passes without them.

Edits are counted from the last pass, or from the compiler's output if there was no pass. The check is one replay of a
copy, and one for each hunk if there are several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact import Artifact
from pypto_build.artifact.first_sight import Change
from pypto_build.artifact.last_pass import LAST_PASS, Edited, compiled_ones, copies, edits
from pypto_build.diagnose.findings import Edit, Finding
from pypto_build.diagnose.triage.scratch import compile_program, copy_artifact, make_golden, passes

#: Hunks that are put back one by one.
_MOST_HUNKS = 6
_SHOWN = 6
_RULE = "triage/edited"


@dataclass
class Edits:
    """The edit that explains the failure, or all of them together; everything that was edited, and since when."""

    findings: list[Finding]
    edited: list[Change]
    since: str = ""


class Trials:
    """Replays of copies of an artifact in which edits are undone. ``words`` are the options of a replay."""

    def __init__(self, artifact: Artifact, build_dir: Path, words: Sequence[str]) -> None:
        self.artifact, self.words = artifact, words
        self.build_dir, self.scratch = build_dir, build_dir / "triage" / "edited"

    def pass_with(self, texts: Mapping[str, bytes]) -> bool:
        """Return whether a copy with these files passes."""
        copy = copy_artifact(self.artifact, self.scratch)
        for name, text in texts.items():
            (copy / name).unlink(missing_ok=True)
            (copy / name).write_bytes(text)
        if "golden.py" in texts and "data/out" not in {Path(name).parent.as_posix() for name in texts}:
            make_golden(copy)
        return passes(copy, self.scratch, self.words)

    def explained(self, changed: Mapping[str, Path], since: str) -> Edits:
        """Put back files from their copies: all of them, then hunk by hunk."""
        hunks = list(edits(self.artifact, dict(changed)))
        every = [hunk.change for hunk in hunks]
        if not hunks or not self.pass_with({name: copy.read_bytes() for name, copy in changed.items()}):
            return Edits([], every, since)
        for hunk in hunks[:_MOST_HUNKS] if len(hunks) > 1 else ():
            if self.pass_with({hunk.change.path: hunk.before}):
                return Edits([_finding([hunk], since, "the replay passes if this edit is undone")], every, since)
        says = (
            "the replay passes if this edit is undone"
            if len(hunks) == 1
            else (f"the replay passes if these {len(hunks)} edits are undone")
        )
        return Edits([_finding(hunks, since, says)], every, since)


def edited_findings(
    artifact: Artifact, build_dir: Path, words: Sequence[str], compiler: Sequence[str], program: Path | None
) -> Edits:
    """Return what was edited and explains the failure. ``compiler`` are flags to compile ``program`` with."""
    trials = Trials(artifact, build_dir, words)
    changed = copies(build_dir, artifact)
    sources = {name: copy for name, copy in changed.items() if Path(name).is_absolute()}
    inside = {name: copy for name, copy in changed.items() if name not in sources}
    seen = (build_dir / LAST_PASS).is_dir()
    if program is not None and (sources or not seen):
        compiled = _compiled(artifact, program, build_dir / "triage" / "compiled", compiler)
        by_hand = trials.explained(compiled, f"other than the compiler makes of {program.name}")
        if by_hand.findings or not seen:
            return by_hand
    since = "edited since the last pass"
    if not sources:
        return trials.explained(inside, since)
    hunks = list(edits(artifact, sources))
    every = [hunk.change for hunk in hunks]
    if not trials.pass_with({name: copy.read_bytes() for name, copy in inside.items()}):
        return Edits([], every, since)
    return Edits([_finding(hunks, since, "the artifact that was compiled before the edit passes")], every, since)


def _compiled(artifact: Artifact, program: Path, output: Path, flags: Sequence[str]) -> dict[str, Path]:
    """Compile the program, and return the compiled files that differ from the artifact's."""
    if not compile_program(program, output, flags):
        return {}
    libraries = {}
    for path in compiled_ones(artifact):
        name = path.relative_to(artifact.root).as_posix()
        if (output / name).is_file() and (output / name).read_bytes() != path.read_bytes():
            libraries[name] = output / name
    return libraries


def _finding(hunks: Sequence[Edited], since: str, says: str) -> Finding:
    first = hunks[0].change
    lines = [hunk.change for hunk in hunks if hunk.change.line]
    return Finding(
        _RULE,
        f"{since}, and {says}: {_words(first)}",
        first.path,
        first.line,
        "undo the edit, or correct it",
        detail=tuple(f"edited too: {hunk.change.words}" for hunk in hunks[1:_SHOWN]),
        edits=tuple(
            Edit(one.path, one.line, one.new, one.old) for one in lines if "\n" not in one.old + one.new and one.new
        ),
    )


def _words(change: Change) -> str:
    if not change.line:
        return "it holds something else"
    return f"'{change.new or 'nothing'}' was '{change.old or 'nothing'}'"
