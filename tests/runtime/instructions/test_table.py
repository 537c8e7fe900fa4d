"""The table of instructions and the headers say the same: names, forms, element types, operands read and written."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np

from pypto_build.pto.instructions import GROUPS, document
from pypto_build.pto.ops import INSTRUCTIONS, TABLE, Instruction, OpDef
from pypto_build.pto.ops.spec import NUMBERS, operands
from pypto_build.runtime.build import INCLUDE_DIR
from tests.pto.rows import ON_ELEMENTS
from tests.rows import every
from tests.runtime.instructions.table_cases import LAYOUTS, REGIONS, A, B, C, Case, D, Operands, case_of_row
from tests.runtime.instructions.test_every_type import CASES, NAMES, UNITS, declarations
from tests.runtime.instructions.tile_harness import CXX, FLAGS, FLOATS, decode, encode

REPOSITORY = Path(__file__).resolve().parents[3]
HEADERS = {path.name: path.read_text(encoding="utf-8") for path in sorted((INCLUDE_DIR / "pto").rglob("*.hpp"))}

# What the kernels of the field's common models use.
MUST = """TASSIGN TLOAD TSTORE TMOV TEXTRACT TMATMUL TMATMUL_ACC TADD TSUB TMUL TDIV TADDS TMULS TSUBS TEXPANDS TEXP TSQRT
TRSQRT TRECIP TNEG TMAX TCVT TROWSUM TROWMAX TROWEXPANDMUL TROWEXPANDDIV TROWEXPANDSUB TCOLEXPANDMUL TFILLPAD"""


def defined() -> set[str]:
    """The instructions that the headers define."""
    names: set[str] = set()
    for text in HEADERS.values():
        names.update(re.findall(r"PTO_INST\s+(?:[\w:<>]+\s+)+?((?:T|M|S)[A-Z0-9_]{2,})\(", text))
        names.update(
            re.findall(
                r"^PTO_(?:BINARY|(?:TERNARY_)?WITH_SCALAR|UNARY|TERNARY|MULTIPLY_ADD|PARTIAL(?:_ARG)?|ARG_REDUCTION|UNSUPPORTED)\((\w+)",
                text,
                re.M,
            )
        )
        for suffix in re.findall(r"^PTO_EXPANSION\((\w+)", text, re.M):
            names.update((f"TROWEXPAND{suffix}", f"TCOLEXPAND{suffix}"))
        for rows, cols in re.findall(r"^PTO_REDUCTION\((\w+), (\w+)", text, re.M):
            names.update((rows, cols))
    return {name for name in names if re.fullmatch(r"[A-Z0-9_]+", name)} - {"NAME"}


def test_every_instruction_has_a_row_and_every_row_an_instruction() -> None:
    assert defined() == set(INSTRUCTIONS)


def test_every_operation_becomes_an_instruction_that_has_a_row() -> None:
    """Or a C++ expression; what is refused needs none."""
    named = {row.cpp for row in TABLE.values() if row.cpp.isidentifier()}
    assert named - INSTRUCTIONS.keys() - {"TGEMV_MX"} == set()
    assert {row.group for row in INSTRUCTIONS.values()} == {*GROUPS, "not supported"}


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
    words |= {row.cpp for row in ON_ELEMENTS.values()}  # of which test_every_type has cases
    assert [name for name, row in INSTRUCTIONS.items() if not row.unsupported and name not in words] == []


@every("row", ON_ELEMENTS.values())
def test_what_a_row_says_in_pytorch_is_what_is_written_here(row: OpDef) -> None:
    """The cases that are made of rows have the models that were written without them."""
    written, made = CASES[row.cpp], case_of_row(row)
    for dtype in (NAMES[cpp] for cpp in INSTRUCTIONS[row.cpp].dtypes):
        if not row.meaning.expression(is_float=dtype in FLOATS):
            continue
        results = []
        values = {o.name: decode(o.values(dtype), dtype) for o in (D, A, B, C) if o.values is not None}
        same = dict(zip(re.findall(r"\b[a-d]\b", made.call), re.findall(r"\b[a-d]\b", written.call), strict=False))
        for case, source in ((written, {}), (made, same)):
            operands = Operands(dtype, {name: values[source.get(name, name)].copy() for name in values})
            with np.errstate(all="ignore"):
                case.model(operands, *REGIONS[1])
            results.append(decode(encode(operands["d"], dtype), dtype))
        np.testing.assert_allclose(results[1], results[0], rtol=2 * UNITS.get(dtype, 0))


def test_the_page_is_current() -> None:
    page = REPOSITORY / "docs" / "lookup" / "instructions.md"
    message = "run python -m pypto_build.pto.instructions > docs/lookup/instructions.md"
    assert page.read_text(encoding="utf-8") == document(), message


def body(number: int, case: Case, dtype: str, layout: str) -> str:
    """A function that calls an instruction on tiles of an element type and a layout."""
    declared = declarations(case.operands, dtype, layout).replace("\n", " ")
    # Compilers complain of a function once for each type of tile: these are types of their own.
    declared = declared.replace("PadValue::Null", f"PadValue({1 << 32 | number}ull)")
    return f"{{ const int64_t *v = nullptr; {declared} {case.call} }}"


def not_admitted() -> list[str]:
    """Calls with an element type, or in a layout, that the table does not admit."""
    calls: list[tuple[Case, str, str]] = []
    for name, case in CASES.items():
        row = INSTRUCTIONS[name.split()[0]]
        calls += [(case, NAMES[dtype], row.layouts[0]) for dtype in NUMBERS if dtype not in row.dtypes]
        calls += [(case, NAMES[row.dtypes[0]], layout) for layout in LAYOUTS if layout not in row.layouts]
    return [body(number, *words) for number, words in enumerate(calls)]


def compile_calls(bodies: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    """Compile a function for each body; messages name it as a line of ``calls``."""
    functions = "\n".join(f'#line {k + 1} "calls"\nvoid call_{k}() {body}' for k, body in enumerate(bodies))
    source = directory / "table.cpp"
    source.write_text(f"#include <cstdint>\n#include <pto/pto-inst.hpp>\nusing namespace pto;\n{functions}\n")
    limit = "-ferror-limit=0" if "clang" in CXX else "-fmax-errors=0"
    command = [CXX, *FLAGS, "-w", "-fsyntax-only", limit, str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def refused_with_a_sentence(messages: str) -> set[int]:
    """The calls that a static assertion ends; g++ names the call before the error, and clang++ after it."""
    refused: set[int] = set()
    asserted, call = False, 0
    for line in messages.splitlines():
        named = re.search(r"\bcalls:(\d+):", line)
        call = int(named.group(1)) if named else call
        if "error:" in line:
            asserted = "static assertion failed" in line
        if asserted and (named if "clang" in CXX else "error:" in line):
            refused.add(call)
    return refused


def test_other_element_types_and_layouts_end_the_compilation(tmp_path: Path) -> None:
    bodies = not_admitted()
    refused = refused_with_a_sentence(compile_calls(bodies, tmp_path).stderr)
    assert [bodies[k - 1] for k in range(1, len(bodies) + 1) if k not in refused] == []


def test_two_sources_of_one_kernel_may_include_the_headers(tmp_path: Path) -> None:
    sources = [tmp_path / "one.cpp", tmp_path / "two.cpp"]
    for source in sources:
        source.write_text("#include <cstdint>\n#include <pto/pto-inst.hpp>\n")
    command = [CXX, *FLAGS, "-O0", *map(str, sources), "-o", str(tmp_path / "both.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def recorded() -> dict[str, set[tuple[int, int]]]:
    """Return how many tiles each definition of an instruction reads and writes, as the checked build records it."""
    counts: dict[str, set[tuple[int, int]]] = {}
    for header, text in HEADERS.items():
        for check in re.finditer(r"PTO_CHECK\((\w+)(##\w+)?,(.*?)\);", text, re.DOTALL):
            if header == "check.hpp":
                continue
            name, suffix, clauses = check.groups()
            reads = len(set(re.findall(r"\b(?:reads|carries)\((\w+)", clauses)))
            writes = len(set(re.findall(r"\bwrites\((\w+)", clauses)))
            for user in _users(name, bool(suffix), text, check.start()):
                counts.setdefault(user, set()).add((reads, writes))
    return counts


def _users(name: str, is_prefix: bool, text: str, position: int) -> list[str]:
    """The instructions a recorded access belongs to: itself, or those made by the macro it stands in."""
    if name not in ("NAME", "ROW", "COL") and not is_prefix:
        return [name]
    macro = re.findall(r"#define (PTO_\w+)\(", text[:position])[-1]
    uses = re.findall(rf"^{macro}\((\w+)(?:, (\w+))?", "\n".join(HEADERS.values()), re.M)
    return [name + use[0] if is_prefix else use[name == "COL"] for use in uses]


RECORDED = recorded()


def test_every_instruction_that_touches_a_tile_is_recorded() -> None:
    """But for those made of others, and the parts of pipes and collectives that only touch global memory."""
    made_of_others = {
        "TMOV", "TCONCAT", "TFILLPAD_INPLACE", "TFILLPAD_EXPAND", "TGEMV", "TGEMV_ACC", "TGEMV_BIAS", "TSTORE_FP",
        "TMOV_FP", "TEXTRACT_FP", "TINSERT_FP",
    }  # fmt: skip
    touching = {row.name for row in INSTRUCTIONS.values() if (row.reads or row.writes) and row.group != "addresses"}
    assert touching - {row.name for row in INSTRUCTIONS.values() if row.unsupported} - RECORDED.keys() <= made_of_others


@every("name", sorted(RECORDED.keys() & INSTRUCTIONS.keys()))
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
