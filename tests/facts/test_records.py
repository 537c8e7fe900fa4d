"""The table of records has the fields of the types, and the names of the files that are written."""

from __future__ import annotations

import re
from pathlib import Path

from pypto_build.facts.records import FIELDS, FILES
from pypto_build.replay.chips.records import DispatchRow, RanksRecord
from pypto_build.replay.flight import Flight
from pypto_build.replay.timing import Spread, Timing

PACKAGE = Path(__file__).resolve().parents[2] / "pypto_build"
_FILE = re.compile(r"(\w+\.jsonl?)`")


def test_every_field_of_a_record_is_explained() -> None:
    types = {type_.__name__: type_ for type_ in (Timing, Spread, Flight, RanksRecord, DispatchRow)}
    assert {name: set(fields) for name, (_, fields) in FIELDS.items()} == {
        name: set(type_.__annotations__) for name, type_ in types.items()
    }


def test_every_file_is_one_that_the_product_names() -> None:
    sources = [path for kind in ("*.py", "*.cpp", "*.h") for path in PACKAGE.rglob(kind) if path.name != "records.py"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    names = [name for row in FILES for name in _FILE.findall(row.files)]
    assert len(names) >= 8
    assert [name for name in names if name not in text and name.partition(".")[0] not in text] == []
