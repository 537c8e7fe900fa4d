"""docs/lookup/device-rules.md: what devices demand of operands, who checks it and when.

python -m pypto_build.pto.device > docs/lookup/device-rules.md
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
bind; this page is made from them (`python -m pypto_build.pto.device > docs/lookup/device-rules.md`).

| who checks | when |
|---|---|
| `pypto-build pto_check`, `lint`, the language server | on a module, as you type: operands whose address, extents and numbers are constants. A module that the assembler accepts is not refused: the rule is shown (a warning in the editor), and `pto_check RULES=error` and `lint` fail |
| every replay | on the text of each kernel that changed: `[rules] kernels/aiv/k.cpp:61: …` behind the verdict, in verdict.json (`rules`), JUnit and SARIF. `RULES=error` fails with exit status 8, `RULES=off` is silent |
| `scons replay CHECK=1`, `scons hazards` | on each instruction that the run executed, with the addresses and valid extents it had: rules that the text does not decide |
| the compiler | keeps them: two tiles share bytes only where the rows let them (`compiler/plan.py`), an accumulator with rows known at run time only is compact, and a module that breaks a rule is an error |

What is not known breaks nothing. Extents that upstream's assertions alone compare (`assert`, `verifier`) are
held against modules, not against kernels' text: release builds leave assertions out.

Beyond the rows, modules are checked for pipes: as many pops as pushes and frees as pops, one split at both ends, no use of
a popped tile behind its free, no more of them alive than there are slots. Kernels' text is checked for flags (each
`set_flag` has its `wait_flag`, followed through loops and branches) and for slots (each `TPOP` its `TFREE`, no use behind
it).

`NUMERICS=device` computes as the chip where a rule is broken and the result is known, so that a broken rule is a FAIL with
a number: result and operand in the same bytes, a scratch tile of a row reduction that is too small, an accumulator that is
not compact (`*_in_place`, `small_scratch`, `loose_accumulator` in [agreement.md](agreement.md)).

Who states a rule: """

#: Demands of devices that nothing checks, and the reason.
_UNCHECKED = (
    ("tgather, tgatherb, tscatter, mgather, mscatter", "indices and offsets lie in the tile or table",
     "they are data, which no check before a run sees"),
    ("all", "strides of views and numbers that are arguments",
     "they are known at run time only, and runs record the operands that are tiles"),
    ("tdivs, trem, trems, tquant, tquant.mx", "the source is overwritten: nothing reads it later",
     "no row says what an instruction leaves in its operands"),
    ("tcolsum, tcolmax, tcolmin, tcolprod", "src is not empty", "the assembler accepts it; dst is not written"),
    ("trowsum, trowmax, trowmin, trowprod, ttrans", "tmp is present", "the assembler accepts the form without"),
    ("tmatmul.mx, tgemv.mx, tquant.mx, thistogram, tconcatidx, tpack, tdequant", "types and extents of a5's operands",
     "the runtime has no such products, or no code generator emits them"),
    ("tgather", "scratch and number of the form that compares", "the assembler accepts less than the manual wants"),
    ("tgemv", "a has one row", "the code generator keeps to it; kernels of others have fractals of 16"),
    ("tmatmul", "windows and splits of an accumulator; its rows in steps of 32", "the accumulator's parent is not in the text"),
    ("tload", "distance of blocks of columns; more than two extents into fractals", "rows speak of two axes"),
    ("tstore", "order of stores to the same bytes", "an order in time; `scons hazards` has it between tasks"),
    ("textract, trowexpandadd and its kind", "no live tile in the last 8 KiB of vec",
     "only the operands of the instruction itself are held against it"),
    ("comm.tput, comm.tget", "one order of elements at both ends; a barrier before what announces the transfer",
     "rows do not see the order of a view that is passed in, nor what follows an instruction"),
    ("syncall, fence, cmo, set_ffts", "which cores take part, and when data is flushed",
     "an order in time; `scons hazards MEMORY=weak` runs with memory as one core sees it"),
    ("subview", "the source is no popped tile", "the assembler fails there, not the device"),
    ("tci, txor, tgatherb", "errata of single modes and types", "newer assemblers refuse them, or older headers alone have them"),
    ("tinsert", "whole blocks of rows into transposed fractals of mat on a5", "rows do not know the fractals of a window"),
    ("tload, tgetval, barrier, tsync", "events and barriers between pipes of one core",
     "each set has its wait; which instruction needs one is not derived"),
)  # fmt: skip


def document() -> str:
    """Return the text of the page."""
    words = "; ".join(f"`{name}`: {what}" for name, what in SOURCES.items())
    lines = [f"{_HEAD}{words}.", "", *_counts(), "", *_unchecked(), ""]
    for name in sorted(constrained()):
        lines += [f"## {name.removeprefix('pto.')}", "", "| kind | platform | rule | otherwise | stated by |"]
        lines += ["|---|---|---|---|---|", *map(_row, constraints(name)), ""]
    return "\n".join(lines).rstrip() + "\n"


def _counts() -> Iterator[str]:
    """Yield how many rules there are, by kind and platform."""
    yield "| kind | both | a2a3 | a5 |"
    yield "|---|---|---|---|"
    rows = [row for name in constrained() for row in constraints(name)]
    for kind in KINDS:
        numbers = [sum(row.kind == kind and row.arch == arch for row in rows) for arch in ("both", "a2a3", "a5")]
        if any(numbers):
            yield f"| {kind} | {' | '.join(map(str, numbers))} |"


def _unchecked() -> Iterator[str]:
    yield from ("## Not checked", "", "| instructions | demand | why it is not checked |", "|---|---|---|")
    for instructions, demand, reason in _UNCHECKED:
        yield f"| {instructions} | {demand} | {reason} |"


def _row(row: Constraint) -> str:
    return f"| {row.kind} | {row.arch} | `{row.text}` | {row.why} | {', '.join(row.source.split())} |"


if __name__ == "__main__":
    sys.stdout.write(document())
