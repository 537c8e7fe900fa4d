"""Differences between modules: names, constants' names and locations do not count, everything else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.pto import parse
from pypto_build.pto.diff import diff_modules, main
from tests.pto.samples import module, tile

T = tile()
BODY = (
    "  %c0 = arith.constant 0 : i64\n"
    "  %c1 = arith.constant 4096 : i64\n"
    f"  %a = pto.alloc_tile addr = %c0 : {T}\n"
    f"  %b = pto.alloc_tile addr = %c1 : {T}\n"
    f'  pto.texp ins(%a : {T}) outs(%b : {T}) loc("k.py":3:1)\n'
    f"  pto.tsub ins(%a, %b : {T}, {T}) outs(%b : {T})\n"
    f"  pto.tadd ins(%b, %b : {T}, {T}) outs(%a : {T})"
)


def differences(body: str) -> list[tuple[list[int], list[int]]]:
    """Line numbers removed and added, per difference."""
    actual = diff_modules(parse(module(BODY)), parse(module(body)))
    return [([n for n, _ in d.removed], [n for n, _ in d.added]) for d in actual]


SAME = {
    "names": BODY.replace("%a", "%first").replace("%b", "%0"),
    "names of constants": BODY.replace("%c0", "%zero").replace("%c1", "%c0").replace("%zero", "%c1"),
    "order of constants": "\n".join([*reversed(BODY.split("\n")[:2]), *BODY.split("\n")[2:]]),
    "unused constants": "  %c9 = arith.constant 9 : i64\n" + BODY,
    "locations": BODY.replace('"k.py":3:1', '"other.py":7:7'),
    "spelling of types": BODY.replace(T, "!pto.tile_buf<vec, 16x64xf32, valid=?x?>"),
}


@pytest.mark.parametrize("name", SAME)
def test_no_difference(name: str) -> None:
    assert differences(SAME[name]) == []


DIFFERENT = {
    "another address": (BODY.replace("constant 4096", "constant 8192"), [([6], [6])]),
    "another operation": (BODY.replace("pto.texp", "pto.tabs"), [([7], [7])]),
    "swapped operands": (BODY.replace("pto.tsub ins(%a, %b", "pto.tsub ins(%b, %a"), [([8], [8])]),
    "one operation less": ("\n".join(BODY.split("\n")[:-1]), [([9], [])]),
    "one operation more": (BODY + "\n  pto.barrier <PIPE_ALL>", [([], [10])]),
    "another type": (BODY.replace("rows=16", "rows=32"), [([5, 6, 7, 8, 9], [5, 6, 7, 8, 9])]),
    "an attribute": (
        BODY.replace("outs(%a", "outs(%a").replace(f"outs(%a : {T})", f"outs(%a : {T}) {{x.y = 1}}"),
        [([9], [9])],
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_difference(name: str) -> None:
    body, expected = DIFFERENT[name]
    assert differences(body) == expected


def test_one_inserted_tile_does_not_change_the_lines_after_it() -> None:
    lines = BODY.split("\n")
    lines.insert(2, f"  %new = pto.alloc_tile addr = %c0 : {T}")
    assert differences("\n".join(lines)) == [([], [5])]


def test_functions_that_only_one_module_has() -> None:
    a = parse("func.func @f() {\n  return\n}\n")
    b = parse("func.func @g() {\n  return\n}\n")
    assert [(d.function, d.removed, d.added) for d in diff_modules(a, b)] == [
        ("f", ((1, "func.func @f() {}"), (2, "return")), ()),
        ("g", (), ((1, "func.func @g() {}"), (2, "return"))),
    ]


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = tmp_path / "a.pto", tmp_path / "b.pto"
    a.write_text(module("  pto.barrier <PIPE_ALL>"))
    b.write_text(module("  pto.barrier <PIPE_V>"))
    assert main([str(a), str(a)]) == 0
    assert capsys.readouterr().out == "1 module, nothing differs\n"
    assert main([str(a), str(b)]) == 1
    assert capsys.readouterr().out == "@k:\n  - a.pto:3: pto.barrier <PIPE_ALL>\n  + b.pto:3: pto.barrier <PIPE_V>\n"
    b.write_text("module {")
    assert main([str(a), str(b)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {b}:1:9: module: expected")


def test_directories(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "ptoas").mkdir(parents=True)
        (tmp_path / name / "ptoas" / "u.pto").write_text(module(""))
    assert main([str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    assert capsys.readouterr().out == "1 module, nothing differs\n"
    (tmp_path / "b" / "ptoas" / "more.pto").write_text(module(""))
    assert main([str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert capsys.readouterr().out == "only in b: ptoas/more.pto\n"
    (tmp_path / "c").mkdir()
    (tmp_path / "b").rename(tmp_path / "c" / "a")
    assert main([str(tmp_path / "a"), str(tmp_path / "c" / "a")]) == 1
    assert capsys.readouterr().out == f"only in {tmp_path / 'c' / 'a'}: ptoas/more.pto\n"


def test_an_artifact_compiled_without_ptoas(tmp_path: Path) -> None:
    """Its modules lie elsewhere; units are compared by name all the same."""
    for position in ("a/ptoas", "b/kernels/aiv"):
        (tmp_path / position).mkdir(parents=True)
        (tmp_path / position / "u.pto").write_text(module(""))
    assert main([str(tmp_path / "a"), str(tmp_path / "b")]) == 0
