"""How PyPTO spells the values of a module, and what of the program they came from.

A value is named after the variable of the program that it came from, with a word for what defines it and a count:
`x__ssa_v0` an assignment or parameter, `i__idx_v0` a loop index, `x__iter_v1` what an iteration starts with, `x__rv_v2`
what a loop leaves, `x__phi_v3` what a condition leaves, `num__tmp_v0` a temporary. What belongs to a value is named
after it (`x__ssa_v0_pview_1`, `x__ssa_v0_tensor`). Nothing else in this package or its users knows this.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_SPELLED = re.compile(r"(.+)__(ssa|idx|iter|rv|phi|tmp)_v(\d{1,9})(?!\d)(\w*)", re.ASCII)


class SsaName(NamedTuple):
    """`word` says what defines the value, `rest` what was added to name what belongs to it."""

    variable: str
    word: str
    version: int
    rest: str = ""


def spelled(variable: str, word: str, version: int) -> str:
    return f"{variable}__{word}_v{version}"


def read_ssa_name(name: str) -> SsaName | None:
    """The parts of a value's name; None if it is not spelled so. A variable may have such a name itself: the last word
    counts."""
    found = _SPELLED.fullmatch(name.removeprefix("%"))
    return SsaName(found[1], found[2], int(found[3]), found[4]) if found else None


def source_variable(name: str) -> str:
    """The variable that a value was named after; names that are not spelled so are their own."""
    found = read_ssa_name(name)
    return found.variable if found else name
