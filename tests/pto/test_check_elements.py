"""Element types and layouts of operands: a module with one operation that takes another, and the exact message."""

from __future__ import annotations

import re

import pytest

from pypto_build.pto import parse
from pypto_build.pto.checks import check_module
from tests.pto.samples import module, tile
from tests.rows import every


def problems(text: str) -> list[str]:
    return [str(error) for error in check_module(parse(text, "k.pto"))]


ALLOC = """\
  %a0 = arith.constant 0 : i64
  %a1 = arith.constant 8192 : i64
  %a2 = arith.constant 16384 : i64
  %x = pto.alloc_tile addr = %a0 : {t}
  %y = pto.alloc_tile addr = %a1 : {t}
  %o = pto.alloc_tile addr = %a2 : {t}
"""

ELEMENTS = [
    ("pto.tand", "i32", "src0 has elements i32, a2a3 takes i16, i8"),
    ("pto.tdiv", "i32", "src0 has elements i32, a2a3 takes f16, f32"),
    ("pto.tadd", "bf16", "src0 has elements bf16, a2a3 takes f16, f32, i16, i32"),
]


@pytest.mark.parametrize(("op", "dtype", "message"), ELEMENTS)
def test_element_types_of_the_platform(op: str, dtype: str, message: str) -> None:
    t = tile(dtype=dtype).replace("v_row=?, v_col=?", "v_row=16, v_col=64")
    body = ALLOC.format(t=t) + f"  {op} ins(%x, %y : {t}, {t}) outs(%o : {t})"
    assert problems(module(body)) == [f"k.pto:9:3: {op}: {message}"]
    assert problems(module(body, arch="a5")) == []


def element_problems(text: str, args: str = "", **tiles: str) -> list[str]:
    """Return the checks' messages on one operation on tiles x, y, o; the types of some differ."""
    t = tile()
    body = ALLOC.format(t=t)
    for name, type_ in tiles.items():
        body = re.sub(rf"(%{name} = pto.alloc_tile addr = %a\d : ).*", rf"\1{type_}", body)
    for name in "xyo":
        text = text.replace(f"<{name}>", tiles.get(name, t))
    return [message.partition(": ")[2] for message in problems(module(body + "  " + text, args))]


COL = tile(rows=64, cols=16, blayout="col_major")
BOXED = tile(slayout="row_major")
SAMPLE_ERRORS: list[tuple[str, dict[str, str], str]] = [
    ("pto.tabs ins(%x : <x>) outs(%o : <o>)", {"x": COL, "o": tile(rows=64, cols=16)},
     "pto.tabs: src is a row_major tile, but %x is col_major"),
    ("pto.tcolexpand ins(%x : <x>) outs(%o : <o>)", {"o": BOXED},
     "pto.tcolexpand: dst is a tile without fractals, but %o has slayout=row_major"),
    ("pto.tsort32 ins(%x, %y : <x>, <y>) outs(%o : <o>)", {"y": tile(dtype="ui32"), "o": tile(dtype="f16")},
     "pto.tsort32: dst has elements f16, src has f32"),
    ("pto.texpands ins(%s : f16) outs(%o : <o>)", {}, "pto.texpands: scalar is a f16, dst has elements f32"),
    ("%v = pto.tgetval ins(%x, %i : <x>, index) outs : i32", {},
     "pto.tgetval: the result is a i32, the tile has elements f32"),
    ("pto.tgather ins(%x, %y, %y : <x>, <y>, <y>) outs(%o : <o>)", {},
     "pto.tgather: idx holds positions, found elements f32"),
    ("pto.trandom ins(%n, %n, %n, %n, %n, %n : i32, i32, i32, i32, i32, i32) outs(%o : <o>)",
     {"o": tile(dtype="i32")}, "pto.trandom: is an instruction of a5, which a2a3 does not have"),
    ("pto.tabs ins(%x : <x>) outs(%o : <o>)", {"x": tile().replace("fractal=512", "fractal=16")},
     "pto.alloc_tile: fractal is one of 32, 512, 1024, found 16"),
]  # fmt: skip


@every(("text", "tiles", "message"), SAMPLE_ERRORS)
def test_layouts_and_element_types_of_operands(text: str, tiles: dict[str, str], message: str) -> None:
    assert message in element_problems(text, "%s: f16, %i: index, %n: i32", **tiles)


def test_a_window_keeps_its_element_type_and_layout() -> None:
    mat, right = tile("mat", 32, 32, "f16"), tile("right", 16, 32, "f32")
    flat = tile("right", 16, 32, "f16", blayout="col_major", slayout="row_major")
    body = "  %c = arith.constant 0 : index\n  %a = arith.constant 0 : i64\n"
    body += f"  %m = pto.alloc_tile addr = %a : {mat}\n"
    for type_, message in (
        (right, "dst has elements f32, src has f16"),
        (flat, "dst in right is row_major with col_major fractals, found col_major with row_major"),
    ):
        text = body + f"  %r = pto.alloc_tile addr = %a : {type_}\n"
        text += f"  pto.textract ins(%m, %c, %c : {mat}, index, index) outs(%r : {type_})"
        assert problems(module(text, kind="cube"))[-1] == f"k.pto:7:3: pto.textract: {message}"
