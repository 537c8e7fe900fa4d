"""The outcome of one test or replay, as a build hands it to the writers of CI reports."""

from __future__ import annotations

from typing import Literal

import msgspec

Word = Literal["PASS", "FAIL", "UNCHECKED", "SKIPPED", "ERROR"]


class Outcome(msgspec.Struct):
    """The outcome of one test, or of a replay outside of tests.

    ``text`` is the output of the run, or of a failed build. ``reason`` says in a line what is wrong; ``command`` is
    what to type next to find the cause. ``verdict`` is the path of its verdict, ``pack`` that of its pack
    (PACK=onfail). ``seconds`` is the duration. ``junit`` is the path of a report by pytest,
    whose cases stand for this one.
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
