"""The table of instructions and the headers say the same: names, forms, element types, operands read and written."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pypto_build.runtime.build import INCLUDE_DIR
from pypto_build.runtime.instructions import INSTRUCTIONS, NUMBERS, Instruction, document, operands
from tests.runtime.instructions.tile_harness import CXX, FLAGS

REPOSITORY = Path(__file__).resolve().parents[3]
HEADERS = {path.name: path.read_text(encoding="utf-8") for path in sorted((INCLUDE_DIR / "pto").rglob("*.hpp"))}

# What the kernels of the field's common models use.
MUST = """TASSIGN TLOAD TSTORE TMOV TEXTRACT TMATMUL TMATMUL_ACC TADD TSUB TMUL TDIV TADDS TMULS TSUBS TEXPANDS TEXP TSQRT
TRSQRT TRECIP TNEG TMAX TCVT TROWSUM TROWMAX TROWEXPANDMUL TROWEXPANDDIV TROWEXPANDSUB TCOLEXPANDMUL TFILLPAD"""

# How operands are declared for the compilations below, by name; T is the element type.
_DECLARED = {
    "mask": "Tile<TileType::Vec, uint8_t, 8, 64>",
    "row": "Tile<TileType::Vec, T, 8, 1, BLayout::ColMajor>",
    "col": "Tile<TileType::Vec, T, 1, 64>",
}
_TILE = "Tile<TileType::Vec, T, 8, 64>"


def defined() -> set[str]:
    """The instructions that the headers define."""
    found: set[str] = set()
    for text in HEADERS.values():
        found.update(re.findall(r"PTO_INST\s+(?:[\w:<>]+\s+)+?((?:T|M|S)[A-Z0-9_]{2,})\(", text))
        found.update(
            re.findall(r"^PTO_(?:BINARY|WITH_SCALAR|UNARY|PARTIAL|ARG_REDUCTION|UNSUPPORTED)\((\w+)", text, re.M)
        )
        for suffix in re.findall(r"^PTO_EXPANSION\((\w+)", text, re.M):
            found.update((f"TROWEXPAND{suffix}", f"TCOLEXPAND{suffix}"))
        for rows, cols in re.findall(r"^PTO_REDUCTION\((\w+), (\w+)", text, re.M):
            found.update((rows, cols))
    return {name for name in found if re.fullmatch(r"[A-Z0-9_]+", name)} - {"NAME"}


def test_every_instruction_has_a_row_and_every_row_an_instruction() -> None:
    assert defined() == set(INSTRUCTIONS)


def test_what_common_kernels_use_is_there() -> None:
    assert {row.name for row in INSTRUCTIONS.values() if row.rank == "must"} == set(MUST.split())
    assert not [row.name for row in INSTRUCTIONS.values() if row.unsupported and row.rank != "rest"]


def test_what_is_not_supported_says_so() -> None:
    sentences = re.findall(r"PTO_UNSUPPORTED\(([A-Z]\w+),\s*\"([^\"]+)\"", "\n".join(HEADERS.values()))
    assert dict(sentences) == {row.name: row.unsupported for row in INSTRUCTIONS.values() if row.unsupported}


def test_every_supported_instruction_is_tested() -> None:
    tests = [path for path in Path(__file__).parents[1].rglob("test_*.py") if path.name != Path(__file__).name]
    text = "\n".join(path.read_text(encoding="utf-8") for path in tests)
    words = set(re.findall(r"[A-Z_][A-Z0-9_]+", text))
    # tests write families as "TROW{op}"
    families = [prefix for prefix in ("TROW", "TCOL", "TROWEXPAND", "TCOLEXPAND", "TGEMV") if prefix + "{" in text]
    words |= {prefix + word for prefix in families for word in {*words, ""}}
    assert [name for name, row in INSTRUCTIONS.items() if not row.unsupported and name not in words] == []


def test_the_page_is_current() -> None:
    page = REPOSITORY / "docs" / "instructions.md"
    message = "run python -m pypto_build.runtime.instructions > docs/instructions.md"
    assert page.read_text(encoding="utf-8") == document(), message


def typed() -> list[Instruction]:
    return [row for row in INSTRUCTIONS.values() if row.dtypes]


def calls(row: Instruction, dtype: str) -> Iterator[str]:
    """A function for each form of an instruction on tiles of one element type."""
    for form in row.forms:
        declarations, arguments = [f"using T = {dtype};"], []
        for position, name in enumerate(operands(form)):
            if name == "scalar":
                arguments.append("T(1)")
            elif name == "mode":
                arguments.append("CmpMode::LT")
            else:
                kind = name
                if row.group == "reduction" and position == 0:
                    kind = "row" if row.name.startswith("TROW") else "col"
                declarations.append(f"{_DECLARED.get(kind, _TILE)} t{position};")
                arguments.append(f"t{position}")
        yield f"{{ {' '.join(declarations)} {row.name}({', '.join(arguments)}); }}"


def compile_calls(bodies: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    """Compile a function for each body; messages name it as a line of ``calls``."""
    functions = "\n".join(f'#line {k + 1} "calls"\nvoid call_{k}() {body}' for k, body in enumerate(bodies))
    source = directory / "table.cpp"
    source.write_text(f"#include <cstdint>\n#include <pto/pto-inst.hpp>\nusing namespace pto;\n{functions}\n")
    limit = "-ferror-limit=0" if "clang" in CXX else "-fmax-errors=0"
    command = [CXX, *FLAGS, "-w", "-fsyntax-only", limit, str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_element_types_of_a_row_compile(tmp_path: Path) -> None:
    bodies = [body for row in typed() for dtype in row.dtypes for body in calls(row, dtype)]
    run = compile_calls(bodies, tmp_path)
    assert run.returncode == 0, run.stderr[:2000]


def test_other_element_types_end_the_compilation(tmp_path: Path) -> None:
    bodies = [body for row in typed() for dtype in NUMBERS if dtype not in row.dtypes for body in calls(row, dtype)]
    run = compile_calls(bodies, tmp_path)
    refused = {int(line) for line in re.findall(r"\bcalls:(\d+):", run.stderr)}
    assert [bodies[k - 1] for k in range(1, len(bodies) + 1) if k not in refused] == []


def recorded() -> dict[str, set[tuple[int, int]]]:
    """How many tiles each definition of an instruction reads and writes, as the checked build records it."""
    found: dict[str, set[tuple[int, int]]] = {}
    for header, text in HEADERS.items():
        for check in re.finditer(r"PTO_CHECK\((\w+)(##\w+)?,(.*?)\);", text, re.DOTALL):
            if header == "check.hpp":
                continue
            name, suffix, clauses = check.groups()
            reads = len(set(re.findall(r"\b(?:reads|carries)\((\w+)", clauses)))
            writes = len(set(re.findall(r"\bwrites\((\w+)", clauses)))
            for user in _users(name, bool(suffix), text, check.start()):
                found.setdefault(user, set()).add((reads, writes))
    return found


def _users(name: str, is_prefix: bool, text: str, position: int) -> list[str]:
    """The instructions a recorded access belongs to: itself, or those made by the macro it stands in."""
    if name not in ("NAME", "ROW", "COL") and not is_prefix:
        return [name]
    macro = re.findall(r"#define (PTO_\w+)\(", text[:position])[-1]
    uses = re.findall(rf"^{macro}\((\w+)(?:, (\w+))?", "\n".join(HEADERS.values()), re.M)
    return [name + use[0] if is_prefix else use[name == "COL"] for use in uses]


RECORDED = recorded()


@pytest.mark.parametrize("name", sorted(RECORDED.keys() & INSTRUCTIONS.keys()))
def test_operands_read_and_written_are_those_recorded(name: str) -> None:
    row = INSTRUCTIONS[name]
    for reads, writes in RECORDED[name]:
        assert any(reads <= r and writes <= w for r, w in _counts(row)), (RECORDED[name], _counts(row))
    assert max(w for _, w in RECORDED[name]) == max(w for _, w in _counts(row))


def _counts(row: Instruction) -> list[tuple[int, int]]:
    counts = []
    for form in row.forms:
        names = operands(form)
        writes = [name for name in names if name in row.writes]
        counts.append((len([n for n in row.reads if n in names or n in row.also_read]), len(writes)))
    return counts
