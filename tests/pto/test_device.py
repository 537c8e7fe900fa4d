"""The rules of a device: each row is broken by a planted violation, which is found at its line; what kernels of others
and of ours do is clean."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.pto.device import document
from pypto_build.pto.ops import TABLE
from pypto_build.pto.ops.constraints import KINDS, SOURCES, Constraint, Facts, parse_constraints
from pypto_build.pto.ops.device import constrained, constraints
from tests.pto.device_cases import is_of_kernels, planted, violations
from tests.pto.device_formats import PLANTS, Plant
from tests.rows import every


@every("name", constrained())
def test_row_is_of_its_operation(name: str) -> None:
    roles = {role.name for role in TABLE[name].roles()}
    for row in constraints(name):
        assert row.roles <= roles, row.text
        assert row.kind in KINDS
        assert set(row.source.split()) <= SOURCES.keys()
        assert not row.is_broken(Facts({}, {}, {})) or "present" in row.text, "nothing is known"
    texts = [(row.arch, row.text) for row in constraints(name)]
    assert len(texts) == len(set(texts))


@every("name", constrained())
def test_violation_is_found_at_its_line(name: str) -> None:
    missed = [
        (arch, row.text)
        for row in constraints(name)
        for arch in ((TABLE[name].only or "a2a3",) if row.arch == "both" else (row.arch,))
        if not is_of_kernels(row, name) and planted(row, name, arch) is None
    ]
    assert missed == []


@every("plant", PLANTS)
def test_violation_of_an_operation_with_its_own_format(plant: Plant) -> None:
    assert plant.is_found()


def test_the_order_that_the_assembler_chooses_is_no_violation_of_a_module() -> None:
    """A kernel's own order breaks these rows; the same types in a module do not."""
    rows = [(row, name) for name in constrained() for row in constraints(name) if is_of_kernels(row, name)]
    assert sorted((row.arch, name) for row, name in rows) == [
        (arch, f"pto.{name}")
        for arch in ("a2a3", "a5")
        for name in ("tgemv", "tgemv.acc", "tgemv.bias", "tmatmul", "tmatmul.acc", "tmatmul.bias")
    ]
    for row, name in rows:
        use = next(violations(row, name, row.arch))
        assert row.is_broken(use.facts())
        assert use.findings(row.arch) == []


def one(text: str) -> Constraint:
    (row,) = parse_constraints(f"shape | both | {text} | header | why")
    return row


def test_a_conjunction_is_several_rows_and_a_chain_too() -> None:
    rows = list(parse_constraints("shape | both | loc(a) == vec => valid(a) == valid(b) and rows(a) == 1 | docs | why"))
    assert [row.text for row in rows] == [
        "loc(a) == vec => valid_rows(a) == valid_rows(b)",
        "loc(a) == vec => valid_cols(a) == valid_cols(b)",
        "loc(a) == vec => rows(a) == 1",
    ]


def test_unknown_function_and_malformed_row_are_errors() -> None:
    with pytest.raises(ValueError, match="no function 'area'"):
        one("area(a) > 1").is_broken(Facts({}, {}, {}))
    with pytest.raises(ValueError, match="is not kind"):
        list(parse_constraints("colour | both | rows(a) == 1 | docs | why"))


def test_the_page_is_current() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "lookup" / "device-rules.md"
    assert page.read_text(encoding="utf-8") == document(), (
        "run: python -m pypto_build.pto.device > docs/lookup/device-rules.md"
    )
