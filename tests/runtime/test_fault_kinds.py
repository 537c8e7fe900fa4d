"""Every kind of fault has words that its fields fill."""

from __future__ import annotations

import re
import string

from pypto_build.facts.faults import KINDS, FaultKind
from pypto_build.runtime.build import SOURCE_DIR
from pypto_build.runtime.faults import FaultRecord, derived_names, hint_of, message_of, status_of
from tests.rows import every

NAMES = {number: name for name, number in vars(FaultKind).items() if isinstance(number, int)}
#: Noticed in Python, so nothing in C++ names them.
IN_PYTHON = range(FaultKind.REFERENCE, FaultKind.RANKS_DEADLOCK + 1)
SOURCES = [path.read_text(encoding="utf-8") for path in SOURCE_DIR.rglob("*.cpp")]


def camel(kind: int) -> str:
    return "".join(word.capitalize() for word in NAMES[kind].split("_"))


def names(kind: int) -> set[str]:
    """The fields that the words of a kind stand for."""
    row = KINDS[kind]
    return {name for _, name, *_ in string.Formatter().parse(row.message + row.hint) if name} - derived_names()


def test_every_kind_has_a_row() -> None:
    assert list(KINDS) == list(NAMES) == list(range(1, len(NAMES) + 1))


@every("kind", NAMES)
def test_somebody_notices_it_with_its_fields(kind: int) -> None:
    """C++ that makes the fault gives every field that the words name."""
    if kind in IN_PYTHON:
        assert names(kind) == {"text", "hint"}
        return
    uses = [text[at.end() :] for text in SOURCES for at in re.finditer(rf"FaultKind::{camel(kind)}\b", text)]
    assert uses
    for use in uses:
        facts = use.partition(";")[0]
        passed = set(re.findall(r'\{"(\w+)", ', facts)) | set(re.findall(r"\b(ring|file|line)\b", facts))
        assert names(kind) <= passed


@every("kind", NAMES)
def test_words_are_made_of_whatever_there_is(kind: int) -> None:
    """A record that was written over still ends in a line."""
    record = FaultRecord(kind)
    assert message_of(record)
    assert status_of(record) in ("usage_error", "build_error", "runtime_error", "hang")
    assert isinstance(hint_of(record), str)
