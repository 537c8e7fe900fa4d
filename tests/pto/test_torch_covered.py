"""Tests that every operation with a PyTorch translation is tested.

A test is one by its row alone, by a case of the table, on all its element types, or by its name in another test.
"""

from __future__ import annotations

import re
from pathlib import Path

from pypto_build.pto.checks.elements import element_types
from pypto_build.pto.model import Operation
from pypto_build.pto.ops import TABLE
from pypto_build.pto.torch.lowering import find_lowering, nothing
from tests.pto.rows import ON_ELEMENTS
from tests.pto.torch_operations import CASES

HERE = Path(__file__).parent
#: Operations that take tiles and are not in the table of cases -> the file whose test asks the table of operations for
#: their element types, or why they have none.
ELSEWHERE = {
    "pto.tcvt": "test_torch_convert.py",
    "pto.tfillpad": "test_torch_rearranging.py",
    "pto.tfillpad_inplace": "test_torch_rearranging.py",
    "pto.tfillpad_expand": "test_torch_rearranging.py",
    "pto.tgatherb": "test_torch_rearranging.py",
    "pto.tsort32": "test_torch_rearranging.py",
    "pto.tmrgsort": "test_torch_rearranging.py",
    "pto.mgather": "test_torch_transfers.py",
    "pto.mscatter": "test_torch_transfers.py",
    "pto.tsetval": "test_torch_elements.py",
}
EVERYWHERE = {"pto.tload", "pto.tstore"}  # every case loads and stores its tiles


def handled() -> list[str]:
    return [name for name in TABLE if find_lowering(Operation(name)) not in (None, nothing)]


def used_in(text: str, name: str) -> bool:
    """Written out, or as a string that a test puts behind the dialect."""
    short = re.sub(r"^(pto|arith|math)\.", "", name)
    base = re.sub(r"(\.mx)?\.(acc|bias)$", r"\1", short)  # forms of products
    written = rf"{re.escape(name)}(?![\w.])"
    return bool(re.search(written, text)) or any(f'"{word}"' in text for word in (short, base))


def test_every_operation_is_used() -> None:
    files = [p for p in sorted(HERE.glob("*torch_*.py")) if p != Path(__file__)]
    text = "\n".join(p.read_text() for p in files)
    in_table = {case.op for case in CASES.values()} | ON_ELEMENTS.keys()
    assert [name for name in handled() if name not in in_table and not used_in(text, name)] == []


def test_the_cases_have_every_element_type() -> None:
    """All types that the table of operations admits run: a type that it gains, or a case loses, is noticed."""
    types: dict[str, set[str]] = {}
    for case in CASES.values():
        types.setdefault(case.op, set()).update(case.types())
    assert types == {op: set(element_types(op)) for op in types}


def test_all_other_operations_on_tiles_ask_for_their_element_types() -> None:
    in_table = {case.op for case in CASES.values()} | ON_ELEMENTS.keys()
    computing = {name for name in handled() if TABLE[name].cpp and TABLE[name].core != "cube"}
    tiles = {n for n in computing if any(r.kind in ("tile", "shaped") for r in TABLE[n].roles())} - in_table
    assert tiles == ELSEWHERE.keys() | EVERYWHERE
    for name, file in ELSEWHERE.items():
        text = (HERE / file).read_text()
        assert "element_types(" in text
        assert used_in(text, name)
