"""Finds the questions of docs/lookup/agreement.md for which a module's PyTorch ignores NUMERICS=, and describes them
in a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from pypto_build.facts.run_options import DEVICE_RESULTS, FAST, SIMULATOR

from ..ops import TABLE
from ..ops.agreement import AGREEMENTS

#: By NUMERICS=: computed so, or what PyTorch does anyway.
FOLLOWED: dict[str, frozenset[str]] = {
    DEVICE_RESULTS: frozenset((
        "row_sum_order", "row_sum_half", "col_sum_half", "products_of_rows", "subnormal",
    )),
    SIMULATOR: frozenset((
        "accumulate_from_c", "bias_first", "row_sum_order", "col_sum_half", "products_of_rows", "round_to_half",
        "round_to_bfloat16", "round_to_whole", "round_words", "max_with_nan", "row_max_with_nan", "exponential",
        "logarithm", "inverse_root",
    )),
}  # fmt: skip
_OPERATION = re.compile(r"\bpto\.\w+")


def not_followed(numerics: str, instructions: Iterable[str]) -> list[str]:
    """Return the questions of some instructions whose NUMERICS= setting the reference ignores."""
    if numerics == FAST:
        return []
    used = set(instructions)
    decided = {
        row.name: row.device_by if numerics == DEVICE_RESULTS else row.simulator_by for row in AGREEMENTS.values()
    }
    return [
        row.name
        for row in AGREEMENTS.values()
        if decided[row.name] == numerics
        and row.name not in FOLLOWED[numerics]
        and not row.only_broken
        and used & set(row.names())
    ]


def line_on(numerics: str, artifact: Path) -> str:
    """Return a line on an artifact's instructions for which the reference ignores NUMERICS=; empty without any."""
    if numerics == FAST:
        return ""
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in sorted(artifact.glob("**/ptoas/**/*.pto")))
    operations = {name for text in texts for name in _OPERATION.findall(text)}
    names = not_followed(numerics, {TABLE[name].cpp for name in operations if name in TABLE})
    if not names:
        return ""
    return f"the reference does not follow NUMERICS={numerics} in {', '.join(names)} (docs/lookup/agreement.md)"
