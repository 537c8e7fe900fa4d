"""Answers of the language server, without the protocol."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.editor.questions import hover, operation_text, proposals
from pypto_build.editor.server import TOKEN_TYPES, colours_of, encoded, formatted
from pypto_build.editor.symbols import definition_of, kernel_files, spans_of, token_at
from pypto_build.pto.live.module import LiveModule
from pypto_build.pto.live.pairs import pair
from pypto_build.pto.ops import TABLE
from pypto_build.pto.ops.meaning import what_it_does
from tests.pto.live.test_module import NESTED

ARTIFACTS = Path(__file__).resolve().parents[2] / "examples" / "artifacts"
MODULES = sorted(ARTIFACTS.glob("*/ptoas/*.pto"))


def opened(text: str) -> LiveModule:
    live = LiveModule()
    live.update(text)
    return live


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_what_the_compiler_writes_is_formatted_already(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert formatted(text) == text
    squeezed = "\n".join(line.strip() for line in text.split("\n"))
    assert formatted(squeezed) == text


@pytest.mark.parametrize(
    "old, new",
    [
        ("func.func @f() {\nreturn   // a  b\n}\n", "func.func @f() {\nreturn // a  b\n}\n"),
        ('func.func @f() {\npto.x {a =  "b  c"}\n}\n', 'func.func @f() {\npto.x {a = "b  c"}\n}\n'),
        ("module {\n\n\t// note\nfunc.func @f() {\n}\n}", "module {\n\n  // note\n  func.func @f() {\n  }\n}"),
        ("func.func @f() {\n", "func.func @f() {\n"),
        ("}\n  {", "}\n  {"),
        ("", ""),
    ],
)
def test_formatting(old: str, new: str) -> None:
    assert formatted(old) == new
    assert formatted(new) == new


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_every_instruction_has_its_line_in_the_kernel(path: Path) -> None:
    live = opened(path.read_text(encoding="utf-8"))
    for function in live.functions:
        (kernel,) = kernel_files(path, function.model.name)
        text = kernel.read_text(encoding="utf-8")
        lines, pairs = text.split("\n"), pair(function, text)
        for number, line in enumerate(live.lines):
            name = line.split()[0] if line.split() else ""
            row = TABLE.get(name)
            if row is None or row.family != "elementwise" or not function.outline.start < number < function.outline.end:
                continue
            at = pairs.in_cpp(number)
            assert at is not None and f"{row.cpp}(" in lines[at], line
            assert pairs.in_module(at) == number


def test_a_name_means_what_is_in_scope() -> None:
    live = opened(NESTED)
    row = next(number for number, line in enumerate(live.lines) if "scf.for" in line)
    for word, uses in (("%s ", 2), ("%i ", 2), ("%sum", 3), ("%c0", 4)):
        token = token_at(live, row, live.lines[row].index(word) + 1)
        assert token is not None
        spans = spans_of(live, token)
        assert len(spans) == uses, (word, spans)
        where = definition_of(live, token)
        assert where == spans[0]
    call = next(number for number, line in enumerate(live.lines) if "@twice(%i)" in line)
    token = token_at(live, call, live.lines[call].index("@twice") + 2)
    assert token is not None
    where = definition_of(live, token)
    assert where is not None and where.line == 1


def test_names_in_a_text_of_another_layout() -> None:
    live = opened(NESTED.replace("    return\n  }\n}", "    return }}"))
    assert live.findings == []
    row = next(number for number, line in enumerate(live.lines) if "arith.addi %v" in line)
    token = token_at(live, row, live.lines[row].index("%c1") + 1)
    assert token is not None
    assert spans_of(live, token)[0].line == 7


def test_hover_says_something_of_everything() -> None:
    for text in (NESTED, MODULES[0].read_text(encoding="utf-8")):
        live = opened(text)
        for number, line in enumerate(live.lines):
            for column in range(0, len(line) + 1, 3):
                token = token_at(live, number, column)
                if token is not None and token.text[:1] == "%":
                    assert "live from line" in hover(live, token), (line, column)


def test_every_operation_says_what_it_does() -> None:
    assert [name for name, row in TABLE.items() if not what_it_does(row)] == []
    assert all(operation_text(row).startswith(f"**{name}**") for name, row in TABLE.items())


def test_colours_of_a_line() -> None:
    line = '  %x = pto.tadd ins(%arg0 : !pto.ptr<f32>) {a = 1 : i32, b = "s"} // %c "'
    kinds = [(line[start : start + length], TOKEN_TYPES[kind], more) for start, length, kind, more in colours_of(line)]
    assert kinds == [
        ("%x", "variable", 1),
        ("pto.tadd", "macro", 0),
        ("ins", "keyword", 0),
        ("%arg0", "parameter", 0),
        ("!pto.ptr<f32>", "type", 0),
        ("a", "property", 0),
        ("1", "number", 0),
        ("i32", "type", 0),
        ("b", "property", 0),
        ('"s"', "string", 0),
        ('// %c "', "comment", 0),
    ]
    assert encoded(["", "  %x", "return %x"]) == [1, 2, 2, 7, 0, 1, 0, 6, 3, 0, 0, 7, 2, 7, 0]


@pytest.mark.parametrize(
    "line, text, expected, unwanted",
    [
        (12, "      scf.yield %", {"%t", "%s", "%i", "%d", "%c0", "%n"}, {"%sum", "%y", "%v"}),
        (14, "    %x = scf.if %", {"%true", "%sum"}, {"%t", "%i", "%x"}),
        (10, "      %d = func.call @", {"@twice", "@k"}, set()),
        (4, "    pto.tad", {"pto.tadd", "pto.tadds"}, {"pto.tmul"}),
        (4, "    pto.tcvt ins(%a {rm", {"rmode"}, {"pto.tadd"}),
    ],
)
def test_completion(line: int, text: str, expected: set[str], unwanted: set[str]) -> None:
    lines = NESTED.split("\n")
    live = opened(NESTED)
    live.update("\n".join([*lines[:line], text, *lines[line + 1 :]]))
    names = {each.text for each in proposals(live, line, len(text))}
    assert expected <= names and not unwanted & names
