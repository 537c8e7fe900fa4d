"""The table of operations is whole: what its rows name exists, and effects follow from roles."""

from __future__ import annotations

import pytest

from pypto_build.facts.dtypes import PTO
from pypto_build.pto.checks import elements, memory, operands, ranks, shapes
from pypto_build.pto.ops import TABLE
from pypto_build.pto.ops.spec import parse_attrs, parse_elements, parse_roles, parse_rules
from pypto_build.pto.types import SPACES
from tests.rows import every

RULES = [*shapes.RULES, *elements.RULES, *operands.RULES, *ranks.RULES]
SCRATCH = [*memory.SCRATCH_RULES, *memory.PRESENCE]


@every("name", TABLE)
def test_row(name: str) -> None:
    definition = TABLE[name]
    assert definition.name == name
    assert {rule.name for rule in definition.rules} <= set(RULES)
    assert {rule.name for rule in definition.scratch} <= set(SCRATCH)
    assert not definition.scratch or definition.role("tmp"), "what is said of the scratch tile is said of one"
    assert {rule.arch for rule in (*definition.rules, *definition.scratch)} <= {"", "a2a3", "a5"}
    assert frozenset().union(*definition.elements.values()) <= PTO.keys()
    assert not definition.refused.endswith(".")
    assert definition.family, "says what it computes"
    assert definition.core in ("", "cube", "vector")
    assert set(definition.inner) <= definition.attrs.keys()
    assert definition.trailing in ("", *definition.attrs)
    for form in definition.variants:
        names = [role.name for role in form.roles()]
        assert len(names) == len(set(names))
        assert all(space in SPACES for role in form.roles() for space in role.spaces)
        assert sum(role.many for role in form.roles()) <= 1 or form.format


def test_every_rule_is_made_by_one_check_and_used() -> None:
    assert len(RULES) == len(set(RULES))
    assert set(RULES) == {rule.name for row in TABLE.values() for rule in row.rules}
    assert set(SCRATCH) == {rule.name for row in TABLE.values() for rule in row.scratch}


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
    with pytest.raises(ValueError, match=r"is not name\[\?\|\*\]:kind\[@spaces\]\[~layout\]\[=access\]"):
        parse_roles(text, "r")


def test_attribute_that_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="attribute 'split' is not"):
        parse_attrs("split")


def test_rules_and_element_types_are_read() -> None:
    first, second = parse_rules("same a2a3:covers(dst,2)")
    assert (first.name, first.args, first.arch) == ("same", (), "")
    assert (second.name, second.args, second.arch) == ("covers", ("dst", "2"), "a2a3")
    assert parse_elements("f16 f32") == {"a2a3": {"f16", "f32"}, "a5": {"f16", "f32"}}
    assert parse_elements("| i8") == {"a5": {"i8"}}
    assert parse_elements("") == {}
    (role,) = parse_roles("src?:tile@vec|mat~rows.a2a3=rw", "r")
    assert (role.spaces, role.layout, role.layout_on, role.access, role.optional) == (
        ("vec", "mat"), "rows", "a2a3", "rw", True,
    )  # fmt: skip


def test_rule_that_cannot_be_read() -> None:
    with pytest.raises(ValueError, match=r"^rule 'covers\(dst' is not \[platform:\]name\[\(argument,…\)\]$"):
        parse_rules("covers(dst")
