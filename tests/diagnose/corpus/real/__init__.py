"""Bugs planted in artifacts as PyPTO's compiler writes them, which are not kept here: a recipe finds its place by pattern.

``python -m tests.diagnose.corpus.real --artifacts DIR`` plants each in a copy, runs the one instrument that `triage`
would name, and checks that it says this one thing, at its line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

#: A file of the artifact, a pattern that matches in exactly one place of it, and what comes there instead.
Substitution = tuple[str, str, str]


class PatternError(Exception):
    """A recipe does not fit the artifact: the compiler writes something else by now."""


@dataclass(frozen=True)
class Recipe:
    """In a copy of the artifact `artifact`, what `edits` match is replaced.

    ``pypto-build <tool> <options>`` then has one finding, of rule `rule`, on a line of `file` that `at` matches, with
    `says` in it. Of `why` there are no findings: every link that parts from the reference is on such a line. Of
    `replay` it is the fault that says so. `constant`: these inputs hold only ones, and the golden is what the artifact
    made of them before it was edited. `seen`: the artifact has been replayed before the bug comes into it.
    """

    name: str
    artifact: str
    edits: tuple[Substitution, ...]
    rule: str
    file: str
    at: str
    says: str = ""
    tool: str = "hazards"
    options: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    seen: bool = False

    @property
    def command(self) -> str:
        """Return the command as a user types it, without the artifact."""
        return " ".join(("scons", self.tool, *self.options))


def plant(recipe: Recipe, artifact: Path) -> None:
    """Do the edits of a recipe to an artifact. Raises PatternError where one does not fit."""
    for file, pattern, new in recipe.edits:
        path = artifact / file
        text, times = re.subn(pattern, new, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        if times != 1:
            raise PatternError(f"{recipe.name}: {pattern!r} matches {times} times in {artifact.name}/{file}")
        path.write_text(text, encoding="utf-8")
