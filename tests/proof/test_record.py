"""The record of a place that grows: what is added is there, what was taken back never comes again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pypto_build.proof.action import InputSet, Result
from pypto_build.proof.record import MORE, RECORD, Record, RecordFile

_SET = InputSet((("{root}/header", "1" * 64),))


def _result(key: str) -> Result:
    return Result(key, {"{root}/source": key}, {}, "w", ("s",), {"made": key})


def _names(record: Record) -> list[str]:
    return sorted(record.results)


@pytest.fixture
def grown(tmp_path: Path) -> RecordFile:
    """A record of one result, and three that were added."""
    file = RecordFile(tmp_path)
    assert file.read() == Record() and not file.add(Record())
    file.write(Record({}, {"s": _SET}, {"0": _result("0")}))
    for number in "123":
        assert file.add(Record({f"/{number}": ((1, 2, 3, 4, 5, 6), number)}, {}, {number: _result(number)}))
    return file


def test_what_was_added_is_read(grown: RecordFile, tmp_path: Path) -> None:
    record = RecordFile(tmp_path).read()
    assert _names(record) == list("0123") and record.results["2"] == _result("2")
    assert sorted(record.digests) == ["/1", "/2", "/3"] and record.sets == {"s": _SET}
    assert grown.news() == []


def test_it_grows_by_what_is_new(grown: RecordFile, tmp_path: Path) -> None:
    before = {name: (tmp_path / name).read_bytes() for name in (RECORD, MORE)}
    assert grown.add(Record({}, {}, {"4": _result("4")}))
    assert (tmp_path / RECORD).read_bytes() == before[RECORD]
    assert (tmp_path / MORE).read_bytes().startswith(before[MORE])


def test_a_process_that_stays_reads_what_others_add(grown: RecordFile, tmp_path: Path) -> None:
    other = RecordFile(tmp_path)
    other.read()
    assert other.add(Record({}, {}, {"4": _result("4")})) and other.add(Record({}, {}, {"5": _result("5")}))
    news = grown.news()
    assert news is not None and [_names(more) for more in news] == [["4"], ["5"]]
    assert grown.news() == []
    other.write(Record())
    assert grown.news() is None and not grown.add(Record())
    assert grown.read() == Record()


def test_two_that_write_at_once_lose_nothing_that_is_wrong(grown: RecordFile, tmp_path: Path) -> None:
    other = RecordFile(tmp_path)
    other.read()
    assert other.add(Record({}, {}, {"4": _result("4")}))
    assert not grown.add(Record({}, {}, {"5": _result("5")}))  # it writes the whole record then
    assert _names(RecordFile(tmp_path).read()) == list("01234")


def test_damage_costs_what_was_added_later(grown: RecordFile, tmp_path: Path) -> None:
    """Whatever byte it is, or wherever the file ends: what is read was the record once."""
    whole = (tmp_path / MORE).read_bytes()
    once = [list("0123"[:count]) for count in range(1, 5)]
    seen = set()
    for position in range(len(whole)):
        flipped = whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :]
        for damaged in (flipped, whole[:position]):
            (tmp_path / MORE).write_bytes(damaged)
            file = RecordFile(tmp_path)
            names = _names(file.read())
            assert names in once and names != once[-1]
            seen.add(len(names))
            if position % 50 == 0 and damaged != b"":
                assert (
                    not file.add(Record({}, {}, {"9": _result("9")})) or _names(RecordFile(tmp_path).read())[-1] == "9"
                )
    assert seen == {1, 2, 3}


def test_pieces_of_another_record_do_not_count(grown: RecordFile, tmp_path: Path) -> None:
    pieces = (tmp_path / MORE).read_bytes()
    grown.write(Record({}, {}, {"7": _result("7")}))
    assert not (tmp_path / MORE).exists()
    (tmp_path / MORE).write_bytes(pieces)  # put back from another day
    file = RecordFile(tmp_path)
    assert _names(file.read()) == ["7"]
    assert file.add(Record({}, {}, {"8": _result("8")}))
    assert _names(RecordFile(tmp_path).read()) == ["7", "8"]


def test_it_is_written_whole_before_it_gets_too_long(
    grown: RecordFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pypto_build.proof.record._GROWS_BYTES", 300)
    assert not grown.add(Record({}, {}, {"4": _result("4" * 400)}))
    assert _names(RecordFile(tmp_path).read()) == list("0123")


@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_what_is_no_file_is_not_waited_for(grown: RecordFile, tmp_path: Path, kind: str) -> None:
    (tmp_path / MORE).unlink()
    (tmp_path / MORE).mkdir() if kind == "directory" else os.mkfifo(tmp_path / MORE)
    file = RecordFile(tmp_path)
    assert _names(file.read()) == ["0"]
    assert grown.news() is None and not grown.add(Record())
    file.write(Record({}, {}, {"7": _result("7")}))
    assert _names(RecordFile(tmp_path).read()) == ["7"]
