"""The quick selection says something of every room."""

from __future__ import annotations

import re
from pathlib import Path

import pypto_build
from tests.quick import QUICK

TESTS = Path(__file__).parent


def test_every_room_has_a_quick_test() -> None:
    """The rooms are those of the product, and the tests' own."""
    product = Path(pypto_build.__file__).parent
    rooms = {path.parent.name for top in (product, TESTS) for path in top.glob("*/__init__.py")}
    rooms -= {"machines"}  # a script of the tests', without tests
    assert rooms <= {path.partition("/")[0] for path in QUICK}


def test_what_is_selected_is_there() -> None:
    names_in = {
        path: re.findall(r"^def (test_\w+)", (TESTS / path).read_text(encoding="utf-8"), re.MULTILINE) for path in QUICK
    }
    assert all(names_in.values())
    assert {path: set(names) - set(names_in[path]) for path, names in QUICK.items()} == {path: set() for path in QUICK}
