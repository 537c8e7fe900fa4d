"""The picture of the house shows the rooms as they are."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs" / "dev"


def test_the_picture_is_of_these_rooms() -> None:
    assert runpy.run_path(str(DOCS / "house.py"))["picture"]() == (DOCS / "house.svg").read_text(encoding="utf-8")
