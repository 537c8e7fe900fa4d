"""Vintages are recognized from their orchestration's text."""

from __future__ import annotations

import pytest

from pypto_build.artifact import VINTAGES, ArtifactError, detect_vintage

from .artifacts import VINTAGE_NAMES, generated


def test_every_vintage_has_a_sample() -> None:
    assert sorted(vintage.name for vintage in VINTAGES) == VINTAGE_NAMES


@pytest.mark.parametrize("name", VINTAGE_NAMES)
def test_detects(name: str) -> None:
    assert detect_vintage(generated(name)).name == name


def test_comments_and_strings_do_not_count() -> None:
    text = '// ChipTaskArgs\n/* L2TaskArgs\n */ const char* s = "CoreTaskArgs";\n' + generated("2026-05")
    assert detect_vintage(text).name == "2026-05"


def test_unknown_vintage() -> None:
    with pytest.raises(ArtifactError) as caught:
        detect_vintage("int main() { return 0; }", "o.cpp")
    assert str(caught.value) == (
        "o.cpp: unknown API version: the file uses neither ChipTaskArgs (2026-08) nor an older orchestration API; "
        "check that ORCHESTRATION.source names the orchestration that the compiler wrote"
    )
