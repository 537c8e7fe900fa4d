"""The table of operations is whole: what its rows name exists, and effects follow from roles."""

from __future__ import annotations

import pytest

from pypto_build.pto.checks.shapes import RULES
from pypto_build.pto.ops import TABLE
from pypto_build.pto.ops.spec import parse_attrs, parse_roles
from pypto_build.pto.types import SPACES


@pytest.mark.parametrize("name", TABLE)
def test_row(name: str) -> None:
    definition = TABLE[name]
    assert definition.name == name
    assert definition.rule in ("", *RULES)
    assert definition.family, "says what it computes"
    assert definition.core in ("", "cube", "vector")
    assert set(definition.inner) <= definition.attrs.keys()
    assert definition.trailing in ("", *definition.attrs)
    for form in definition.forms:
        names = [role.name for role in form.roles()]
        assert len(names) == len(set(names))
        assert all(space in SPACES for role in form.roles() for space in role.spaces)
        assert sum(role.many for role in form.roles()) <= 1 or form.format


def test_effects() -> None:
    assert (TABLE["pto.tadd"].reads(), TABLE["pto.tadd"].writes()) == (("src0", "src1"), ("dst",))
    assert TABLE["pto.trowsum"].writes() == ("tmp", "dst"), "scratch is overwritten"
    assert (TABLE["pto.tinsert"].reads(), TABLE["pto.tinsert"].writes()) == (("src", "row", "col", "dst"), ("dst",))
    assert TABLE["pto.store_scalar"].writes() == ("ptr",)
    assert TABLE["pto.tmatmul.acc"].reads() == ("acc", "a", "b")


def test_semantics_of_a_family() -> None:
    rows = {d.fn: name for name, d in TABLE.items() if d.family == "rowreduce"}
    assert rows == {
        "sum": "pto.trowsum",
        "max": "pto.trowmax",
        "min": "pto.trowmin",
        "prod": "pto.trowprod",
        "argmax": "pto.trowargmax",
        "argmin": "pto.trowargmin",
    }


@pytest.mark.parametrize("text", ["src", "src:nothing", "src:tile=x", "src+:tile"])
def test_role_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not name\[\?\|\*\]:kind\[@spaces\]\[=access\]"):
        parse_roles(text, "r")


def test_attribute_that_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="attribute 'split' is not"):
        parse_attrs("split")
