"""PyPTO's spelling of the values of a module, and the source variables they came from.

A value is named after its source variable, with a word for the kind of its definition and a count. `x__ssa_v0` is an
assignment or parameter, `i__idx_v0` a loop index, `x__iter_v1` the start of an iteration. `x__rv_v2` is the end of a
loop, `x__phi_v3` the end of a condition, `num__tmp_v0` a temporary. Parts of a value are named after it
(`x__ssa_v0_pview_1`, `x__ssa_v0_tensor`). Nothing else in this package or its users knows this.
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
    """Return the parts of a value's name; None for other names.

    A variable may have such a name itself: the last word counts.
    """
    match = _SPELLED.fullmatch(name.removeprefix("%"))
    return SsaName(match[1], match[2], int(match[3]), match[4]) if match else None


def source_variable(name: str) -> str:
    """Return the source variable that a value was named after; the name itself if it has another form."""
    parts = read_ssa_name(name)
    return parts.variable if parts else name
