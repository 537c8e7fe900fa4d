"""The page on the instructions: `python -m pypto_build.pto.instructions` prints docs/lookup/instructions.md."""

from __future__ import annotations

import sys

from .ops import INSTRUCTIONS, Instruction
from .ops.spec import ANY, FLOATS, INTS, LAYOUTS, NUMBERS, PLAIN, ROW_MAJOR

#: The parts of the page.
GROUPS = (
    "addresses", "global memory", "moves", "element-wise", "conversion", "comparison", "reduction", "expansion",
    "partial", "indices", "indexed", "sorting", "rearranging", "matrix", "pipes", "communication",
)  # fmt: skip
_TYPES = {
    FLOATS: "floats", INTS: "integers", NUMBERS: "numbers", ANY: "any",
    ("int32_t", "uint32_t"): "i32, u32", ("float", "half"): "float, half",
}  # fmt: skip
_LAYOUTS = {ROW_MAJOR: "row-major", PLAIN: "row- or column-major", LAYOUTS: "any"}

_INTRODUCTION = """# Instructions

What `pto/pto-inst.hpp` of the embedded runtime has, for both generations of the platform. An instruction works on the
valid region of the tile it writes, which comes first; layouts and paddings are those of the tiles. *Reads* and *writes*
are what the checked build (`CHECK=1`) records; *rank* is how often compiled kernels use it. *Types* are those of the
elements that it computes with or moves, one type for all operands where the row does not say otherwise. Where a device
or upstream's simulator may give other bits, [agreement.md](agreement.md) says so.
"""


_TESTS = """## Tests

`pytest tests/runtime/instructions` runs every row on each of its element types, in each of its layouts, for full,
partial and empty valid regions. `CXX` names another compiler for all of them, `PYPTO_TEST_CXXFLAGS` more flags:

    CXX=clang++-19 PYPTO_TEST_CXXFLAGS=-DPYPTO_CHECK pytest tests/runtime/instructions
    PYPTO_TEST_CXXFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined" ASAN_OPTIONS=detect_leaks=0 \\
        LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)" \\
        pytest tests/runtime/instructions

A program of many instructions runs under the sanitizers, and on an emulated aarch64 where its compiler is installed,
each time; `python -m tests.runtime.sanitize aarch64` runs the whole runtime with the example artifacts there.
"""


def document() -> str:
    """Return the page docs/lookup/instructions.md."""
    lines = [_INTRODUCTION]
    for group in GROUPS:
        lines += [f"## {group[0].upper()}{group[1:]}", ""]
        lines += ["| instruction | form | does | types | layouts | memory | pipe | reads | writes | rank |"]
        lines += ["|" + "---|" * 10]
        lines += [_row(row) for row in INSTRUCTIONS.values() if row.group == group]
        lines.append("")
    lines += ["## Not supported", "", "A use ends the compilation with the sentence.", ""]
    lines += ["| instruction | sentence |", "|---|---|"]
    lines += [f"| {row.name} | {row.unsupported} |" for row in INSTRUCTIONS.values() if row.unsupported]
    lines += [
        "",
        "`floats` are float, half and bfloat16_t; `integers` those of 8 to 64 bits; `numbers` both.",
        "",
        _TESTS,
    ]
    return "\n".join(lines)


def _row(row: Instruction) -> str:
    forms = "<br>".join(f"`({form})`" for form in row.forms)
    types = row.types or _TYPES[row.dtypes]
    does = row.does.replace("|", "\\|")
    cells = (row.name, forms, does, types, _LAYOUTS[row.layouts], row.memory, row.pipe)
    return f"| {' | '.join((*cells, ', '.join(row.reads), ', '.join(row.writes), row.rank))} |"


if __name__ == "__main__":
    sys.stdout.write(document())
