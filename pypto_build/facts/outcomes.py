"""What came of one test or replay: the record that a build hands to whoever writes it down for CI."""

from __future__ import annotations

from typing import Literal

import msgspec

Word = Literal["PASS", "FAIL", "UNCHECKED", "SKIPPED", "ERROR"]


class Outcome(msgspec.Struct):
    """One test, or one replay that is no test.

    ``text`` is what the run printed, or what did not build; ``reason`` a line on what is wrong; ``command`` what to
    type for its cause. ``verdict`` is the path of its verdict, ``pack`` that of its pack (PACK=onfail), ``seconds``
    what it took.
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
