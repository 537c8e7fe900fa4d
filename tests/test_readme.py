"""README's tables against what the verbs say of themselves."""

from __future__ import annotations

import re
from pathlib import Path

from pypto_build.facts.verbs import VERBS

_README = Path(__file__).parents[1] / "README.md"
_VERBS_OF_THE_TABLE = 12
_ROW = re.compile(r"^\| `scons (\w+)([^`]*)`[^|]*?( \(t\))? \|", re.MULTILINE)
#: Options with which a replay needs PyTorch.
_IN_TORCH = ("RUNTIME=torch", "DATA=reference")


def test_what_needs_pytorch_is_marked() -> None:
    rows = _ROW.findall(_README.read_text(encoding="utf-8"))
    needs = {verb.name for verb in VERBS.values() if verb.in_torch}
    marked = {(verb, words) for verb, words, mark in rows if mark}
    assert marked == {row[:2] for row in rows if row[0] in needs or any(word in row[1] for word in _IN_TORCH)}
    assert {verb for verb, _ in marked} == {"diverge", "why"}


def test_the_table_of_verbs_is_short_and_says_what_the_help_says() -> None:
    rows = re.findall(
        r"^\| `scons (\S+) [^`]*`(?: \(t\))? \| (.*) \|$|^\| `scons (test)`",
        _README.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert len(rows) == _VERBS_OF_THE_TABLE
    texts = {verb: text.replace("`", "") for verb, text, _ in rows if verb in VERBS}
    assert texts == {verb: VERBS[verb].doc.replace("other tools", "tools below") for verb in texts}
