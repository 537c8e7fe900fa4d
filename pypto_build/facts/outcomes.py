"""The outcome of one test or replay, as a build hands it to the writers of CI reports."""

from __future__ import annotations

import os
from typing import Literal

import msgspec

Word = Literal["PASS", "FAIL", "UNCHECKED", "SKIPPED", "ERROR"]


def annotations_for(value: str) -> str:
    """Return the CI system that ``ANNOTATE=`` selects for annotations: github, gitlab, or empty for none.

    Without a value, return the CI system that this process runs under.
    """
    here = "github" if os.environ.get("GITHUB_ACTIONS") == "true" else "gitlab" if "GITLAB_CI" in os.environ else ""
    return {"": here, "0": "", "1": here or "github"}.get(value, value)


class Outcome(msgspec.Struct):
    """The outcome of one test, or of a replay outside of tests.

    ``text`` is the output of the run, or of a failed build. ``reason`` says in a line what is wrong; ``command`` finds
    the cause. ``verdict`` is the path of its verdict, ``pack`` that of its archive (PACK=onfail). ``seconds`` is the
    duration. ``junit`` is the path of a pytest report, whose cases replace this one. ``prediction`` is the time that
    `scons speed` predicts, for a test of that time.
    """

    name: str
    word: Word
    seconds: float = 0.0
    cached: bool = False
    artifact: str = ""
    verdict: str = ""
    reason: str = ""
    text: str = ""
    command: str = ""
    failed: bool = False
    pack: str = ""
    junit: str = ""
    prediction: str = ""
