"""The table of agreements: whole, about instructions that exist, and printed as the page has it."""

from __future__ import annotations

from pathlib import Path

from pypto_build.facts.run_options import NUMERICS
from pypto_build.pto.agreement import document
from pypto_build.pto.ops import INSTRUCTIONS
from pypto_build.pto.ops.agreement import AGREEMENTS, SOURCES, of_instruction

REPOSITORY = Path(__file__).parents[2]


def test_the_page_is_current() -> None:
    page = REPOSITORY / "docs" / "lookup" / "agreement.md"
    message = "run python -m pypto_build.pto.agreement > docs/lookup/agreement.md"
    assert page.read_text(encoding="utf-8") == document(), message


def test_rows_are_about_instructions_that_exist() -> None:
    unknown = {name for row in AGREEMENTS.values() for name in row.names()} - INSTRUCTIONS.keys()
    assert not unknown
    assert [row.name for row in of_instruction("TMATMUL_BIAS")] == ["bias_first", "product_order"]


def test_every_claim_has_a_source_and_every_source_a_claim() -> None:
    named = [key for row in AGREEMENTS.values() for key in row.sources.split()]
    assert set(named) == SOURCES.keys()
    unsourced = {row.name for row in AGREEMENTS.values() if row.state == "differs" and not row.sources}
    assert not unsourced


def test_settings_are_those_of_the_option() -> None:
    settings = {by for row in AGREEMENTS.values() for by in (row.device_by, row.simulator_by)} - {""}
    assert settings == set(NUMERICS)
    guessed = {row.name for row in AGREEMENTS.values() if row.state == "open" and row.device_by}
    assert not guessed, "what the device does is not known there"
    same = {row.name for row in AGREEMENTS.values() if row.device_by == row.simulator_by != ""}
    assert same == {row.name for row in AGREEMENTS.values() if row.state == "agreed"}
