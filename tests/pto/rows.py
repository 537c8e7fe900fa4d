"""Uses of operations made from their rows alone, so that a row that is added is tested without a test being written."""

from __future__ import annotations

from collections.abc import Iterator

from pypto_build.pto.ops import TABLE, OpDef, Role
from tests.pto.torch_case import Case

FAMILIES = ("elementwise", "ternary")
#: Operations that are functions of elements.
ON_ELEMENTS = {name: row for name, row in TABLE.items() if row.family in FAMILIES}
_WORDS = {"src": "x", "src0": "x", "src1": "y", "src2": "w", "scalar": "n", "dst": "z", "tmp": "t"}


def _word(role: Role, row: OpDef) -> str:
    own = ":i8" if role.access == "s" and any(rule.name == "bits" for rule in row.scratch) else ""
    return f"{_WORDS[role.name]}{own}{'!' if role.access == 'rw' else ''}"


def cases() -> Iterator[Case]:
    """Every form of every row, with what is optional and without; there is nothing to compare with but other readers
    of the row."""
    for name, row in ON_ELEMENTS.items():
        for number, form in enumerate(row.variants):
            for full in (False, True)[: 1 + any(role.optional for role in form.ins)]:
                ins, outs = (
                    " ".join(_word(r, row) for r in roles if full or not r.optional) for roles in (form.ins, form.outs)
                )
                yield Case(f"{name[4:]}_{number}_{'full' if full else 'short'}", name, ins, outs, compute=lambda: ())
