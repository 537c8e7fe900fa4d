"""The rules stand on the machinery, not the other way round: of the rules it knows the tables alone."""

from __future__ import annotations

import re
from pathlib import Path

import pypto_build.rules

_TABLES = {"options", "targets", "variants", "verbs"}
_IMPORTED = re.compile(r"^\s*from pypto_build\.rules\.(\w+)", re.MULTILINE)


def test_the_machinery_knows_no_rule() -> None:
    machinery = Path(pypto_build.rules.__file__).parent / "machinery"
    imported = {path.name: {*_IMPORTED.findall(path.read_text(encoding="utf-8"))} for path in machinery.glob("*.py")}
    wrong = {name: rules for name, found in imported.items() if (rules := found - _TABLES - {"machinery"})}
    assert imported and wrong == {}
