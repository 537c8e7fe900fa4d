"""docs/device-rules.md: what devices demand of operands, who checks it and when.

python -m pypto_build.pto.device > docs/device-rules.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from .ops.constraints import KINDS, SOURCES, Constraint
from .ops.device import constrained, constraints

_HEAD = """\
# Rules of the device

The CPU forgives what a chip does not: a reciprocal into its own operand, a scratch tile that is too small, a flag that
nothing waits for. These rules are rows of `pypto_build/pto/ops/device.py`, one a line, beside the operations that they
bind; this page is made from them (`python -m pypto_build.pto.device > docs/device-rules.md`).

| who checks | when |
|---|---|
| `pypto-build pto_check`, `lint`, the language server | on a module, as you type: operands whose address, extents and numbers are constants |
| every replay | on the text of each kernel that changed: `[rules] kernels/aiv/k.cpp:61: …` behind the verdict, in verdict.json (`rules`), JUnit and SARIF. `RULES=error` fails with exit status 8, `RULES=off` is silent |
| the compiler | keeps them: two tiles share bytes only where the rows let them (`compiler/in_place.py`), an accumulator with rows known at run time only is compact, and a module that breaks a rule is an error |

What is not known before a run breaks nothing. Extents that upstream's assertions alone compare (`assert`, `verifier`) are
held against modules, not against kernels' text: release builds leave assertions out.

Beyond the rows, modules are checked for pipes: as many pops as pushes and frees as pops, one split at both ends, no use of
a popped tile behind its free, no more of them alive than there are slots. Kernels' text is checked for flags (each
`set_flag` has its `wait_flag`, followed through loops and branches) and for slots (each `TPOP` its `TFREE`, no use behind
it).

Not checked: what depends on values at run time (indices, offsets, strides of tensors, extents that are arguments), a source
that the device overwrites (`tdivs` of integers, `trem`, `tquant` on a2a3), barriers between vector instructions, and the
capacity that an instruction takes at a fixed address without a scratch tile. `NUMERICS=device` computes as the chip where
[results differ](agreement.md), not where a rule is broken.

Who states a rule: """


def document() -> str:
    """The page."""
    words = "; ".join(f"`{name}`: {what}" for name, what in SOURCES.items())
    lines = [f"{_HEAD}{words}.", "", *_counts(), ""]
    for name in sorted(constrained()):
        lines += [f"## {name.removeprefix('pto.')}", "", "| kind | platform | rule | otherwise | stated by |"]
        lines += ["|---|---|---|---|---|", *map(_row, constraints(name)), ""]
    return "\n".join(lines).rstrip() + "\n"


def _counts() -> Iterator[str]:
    """Return how many rules there are, by kind and platform."""
    yield "| kind | both | a2a3 | a5 |"
    yield "|---|---|---|---|"
    rows = [row for name in constrained() for row in constraints(name)]
    for kind in KINDS:
        numbers = [sum(row.kind == kind and row.arch == arch for row in rows) for arch in ("both", "a2a3", "a5")]
        if any(numbers):
            yield f"| {kind} | {' | '.join(map(str, numbers))} |"


def _row(row: Constraint) -> str:
    return f"| {row.kind} | {row.arch} | `{row.text}` | {row.why} | {', '.join(row.source.split())} |"


if __name__ == "__main__":
    sys.stdout.write(document())
