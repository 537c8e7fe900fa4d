"""Readers of files that anybody may have written: each damaged file is read, or ends in the reader's own error."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.readers.found import FOUND
from tests.readers.fuzz import fuzz, read_once
from tests.readers.table import READERS, Reader, reader

#: Damaged files of each reader that are read in every run of the tests.
_COUNT = 100


@pytest.mark.parametrize(("name", "what", "data", "message"), FOUND, ids=[f"{row[0]}: {row[1]}" for row in FOUND])
def test_what_was_found(name: str, what: str, data: bytes | Callable[[], bytes], message: str) -> None:
    kind, text = read_once(reader(name), data() if callable(data) else data)
    assert (kind, text) == ("own" if message else "accepted", message)


@pytest.mark.parametrize("row", [row for row in READERS if row.fifo], ids=lambda row: row.name)
def test_a_pipe_in_place_of_a_file_does_not_block(row: Reader) -> None:
    kind, text = read_once(row, None)
    assert kind in ("own", "accepted"), text
    assert "\n" not in text


@pytest.mark.parametrize("row", READERS, ids=lambda row: row.name)
def test_damaged_files(row: Reader) -> None:
    outcome = fuzz(row, _COUNT, seed=0)
    assert outcome.faults == []
    assert outcome.inputs == _COUNT
