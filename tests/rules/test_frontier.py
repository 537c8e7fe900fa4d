"""What counts as settled: same key, and the binary still what it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.rules.frontier import BINARIES, RECORD, Unit, find_frontier, settle


@pytest.fixture
def units(tmp_path: Path) -> list[Unit]:
    units = [Unit(f"kernels/aiv/k{i}", tmp_path / f"k{i}.cpp", f"key{i}") for i in range(3)]
    for unit in units:
        binary = tmp_path / unit.binary
        binary.parent.mkdir(parents=True, exist_ok=True)
        binary.write_text(unit.name, encoding="utf-8")
    return units


def test_nothing_is_settled_before_it_is_recorded(tmp_path: Path, units: list[Unit]) -> None:
    frontier = find_frontier(tmp_path, units)
    assert (frontier.unsettled, frontier.complete) == (tuple(units), False)


def test_recorded_units_are_settled(tmp_path: Path, units: list[Unit]) -> None:
    settle(tmp_path, units, {})
    frontier = find_frontier(tmp_path, units)
    assert (frontier.unsettled, frontier.complete) == ((), True)


def test_another_key_is_unsettled_and_keeps_its_binary(tmp_path: Path, units: list[Unit]) -> None:
    settle(tmp_path, units, {})
    edited = Unit(units[1].name, units[1].source, "other")
    assert find_frontier(tmp_path, [units[0], edited, units[2]]).unsettled == (edited,)
    assert (tmp_path / edited.binary).exists()


def test_a_damaged_binary_is_unsettled_and_removed(tmp_path: Path, units: list[Unit]) -> None:
    settle(tmp_path, units, {})
    (tmp_path / units[2].binary).write_text("damaged", encoding="utf-8")
    assert find_frontier(tmp_path, units).unsettled == (units[2],)
    assert not (tmp_path / units[2].binary).exists()


def test_a_removed_kernel_changes_the_list(tmp_path: Path, units: list[Unit]) -> None:
    settle(tmp_path, units, {})
    frontier = find_frontier(tmp_path, units[:2])
    assert (frontier.unsettled, frontier.complete) == ((), False)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"kernels/aiv/k0": 3}', '{"kernels/aiv/k0": {"key": "key0"}}'])
def test_a_damaged_record_costs_a_look(tmp_path: Path, units: list[Unit], text: str) -> None:
    settle(tmp_path, units, {})
    (tmp_path / RECORD).write_text(text, encoding="utf-8")
    (tmp_path / BINARIES).write_text(text, encoding="utf-8")
    assert find_frontier(tmp_path, units).complete is False
