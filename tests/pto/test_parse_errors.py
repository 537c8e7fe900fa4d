"""Messages on texts that are not .pto: position, operation, and the expected text, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.pto import PtoError, parse, parse_file
from pypto_build.pto.parse_operations import MAX_DEPTH
from tests.pto.samples import module, tile
from tests.rows import every

T = tile()

# body of a function -> line:column (in the whole text) and message
CASES = {
    "unknown operation": ("  pto.tlaod", "3:3: unknown operation 'pto.tlaod'; did you mean pto.tload?"),
    "nothing alike": ("  pto.qqqqq", "3:3: unknown operation 'pto.qqqqq'"),
    "no operation": ("  42", "3:3: expected an operation or '}', found '42'"),
    "block label": (
        "  ^bb1:",
        "3:3: expected an operation; blocks with labels are not supported, use scf.if, scf.for or scf.while",
    ),
    "missing ins": (f"  pto.tload outs(%t : {T})", "3:13: pto.tload: expected 'ins(', found 'outs'"),
    "missing outs": (f"  pto.tload ins(%p : {T})\n", "5:3: pto.tload: expected 'outs(', found 'return'"),
    "missing colon": (
        "  pto.tload ins(%p !pto.ptr<f32>)",
        "3:20: pto.tload: expected ',', ':' with the types, or ')', found '!pto.ptr<f32>'",
    ),
    "too many types": ("  pto.tload ins(%p : f32, f32)", "3:27: pto.tload: expected 1 type here, found 2"),
    "too few operands": (
        f"  pto.tadd ins(%a : {T}) outs(%b : {T})",
        "3:12: pto.tadd: expected ins(src0, src1) outs(dst), found 1 in ins and 1 in outs",
    ),
    "alternatives": (
        f"  pto.trowargmax ins(%a : {T}) outs(%a, %b, %c : {T}, {T}, {T})",
        "3:18: pto.trowargmax: expected ins(src, [tmp]) outs(dst) or ins(src, [tmp]) outs(dst, dstidx), "
        "found 1 in ins and 3 in outs",
    ),
    "bad type": (
        "  %t = pto.alloc_tile : !pto.tile_buf<loc=vec, dtype=f33, rows=1, cols=1>",
        "3:25: pto.alloc_tile: expected a type, found 'f33'",
    ),
    "bad memory space": (
        "  %t = pto.alloc_tile : !pto.tile_buf<loc=ub, dtype=f32, rows=1, cols=8>",
        "3:25: pto.alloc_tile: tile_buf: loc must be one of vec, mat, left, right, acc, bias, scaling, gm, found 'ub'",
    ),
    "missing type key": (
        "  %t = pto.alloc_tile : !pto.tile_buf<loc=vec, dtype=f32, rows=1>",
        "3:25: pto.alloc_tile: tile_buf: 'cols' is missing",
    ),
    "unknown type key": (
        "  %t = pto.alloc_tile : !pto.tile_buf<loc=vec, dtype=f32, rows=1, cols=8, vrow=1>",
        "3:25: pto.alloc_tile: tile_buf: expected one of loc, dtype, rows, cols, v_row, v_col, blayout, slayout, "
        "fractal, pad, compact, found 'vrow=1'",
    ),
    "short spelling": (
        "  %t = pto.alloc_tile : !pto.tile_buf<vec, 16xf32>",
        "3:25: pto.alloc_tile: tile_buf: expected rows x cols, found 1 extents",
    ),
    "unclosed type": (
        "  %t = pto.alloc_tile : !pto.tile_buf<loc=vec",
        "3:38: pto.alloc_tile: expected '>' to close '<'",
    ),
    "result missing": ("  pto.get_block_idx", "3:3: pto.get_block_idx: expected 1 result name before '=', found 0"),
    "result too many": (
        "  %a = pto.barrier <PIPE_ALL>",
        "3:3: pto.barrier: expected 0 result names before '=', found 1",
    ),
    "no equals sign": ("  %a pto.get_block_idx", "3:6: expected '=' after the results, found 'pto.get_block_idx'"),
    "constant of wrong type": (
        "  %c = arith.constant 1.5 : i32",
        "3:23: arith.constant: expected a number of type i32, found '1.5'",
    ),
    "duplicate attribute": (
        "  pto.tfree_from_aic {split = 1, split = 2}",
        "3:34: pto.tfree_from_aic: expected one 'split', found a second",
    ),
    "unclosed attributes": (
        "  pto.tfree_from_aic {split = 1 id = 2}",
        "3:33: pto.tfree_from_aic: expected ',' or '}' after an attribute, found 'id'",
    ),
    "empty attribute name": (
        '  pto.tfree_from_aic {"" = 1}',
        "3:23: pto.tfree_from_aic: expected an attribute name or '}', found '\"\"'",
    ),
    "no attribute value": (
        "  pto.tfree_from_aic {split = }",
        "3:31: pto.tfree_from_aic: expected an attribute value, found '}'",
    ),
    "loop without to": ("  scf.for %i = %a %b", "3:19: scf.for: expected 'to' and the upper bound, found '%b'"),
    "loop types": (
        "  %r = scf.for %i = %a to %b step %c iter_args(%x = %a) -> (index, index) {\n  }",
        "3:73: scf.for: expected 1 type, one for each carried value, found 2",
    ),
    "if without else": (
        "  %r = scf.if %c -> (index) {\n  }",
        "5:3: scf.if: expected 'else', since the operation has results; found 'return'",
    ),
    "quoted form": (
        '  "pto.tadd"(%a) : (f32, f32) -> ()',
        "3:35: pto.tadd: expected 1 operand types, found 2",
    ),
    "quoted form of wrong types": (
        '  "pto.tadd"(%a) : (f32) -> ()',
        "3:13: pto.tadd: expected ins(src0, src1) outs(dst), found 1 operands",
    ),
    "pipe operand": (
        "  pto.aic_initialize_pipe {dir_mask = 1, slot_size = 8} (gm = %a : i32)",
        "3:58: pto.aic_initialize_pipe: expected one of c2v_consumer_buf, gm_slot_buffer, gm_slot_tensor, "
        "v2c_consumer_buf, found 'gm'",
    ),
    "pushed tile without values": (
        "  pto.tpush_to_aiv( : f32, %a : f32) {split = 0}",
        "3:21: pto.tpush_to_aiv: expected the value of tile, found ':'",
    ),
    "sizes": (
        "  %v = pto.subview %t[%a, %b] sizes [x] : f32",
        "3:38: pto.subview: expected a type, found 'x'",
    ),
    "region": (
        "  pto.section.cube pto.barrier",
        "3:20: pto.section.cube: expected '{' before the body, found 'pto.barrier'",
    ),
}


@every("case", CASES)
def test_message(case: str) -> None:
    body, message = CASES[case]
    with pytest.raises(PtoError) as raised:
        parse(module(body), "k.pto")
    assert str(raised.value) == f"k.pto:{message}"


def test_error_has_its_parts() -> None:
    with pytest.raises(PtoError) as raised:
        parse(module("  pto.tload ins[]"), "k.pto")
    error = raised.value
    assert (error.position.path, error.position.line, error.position.column) == ("k.pto", 3, 16)
    assert (error.operation, error.message) == ("pto.tload", "expected '(', found '['")


@every(
    ("text", "message"),
    [
        ("", "f:1:1: expected 'module' or 'func.func', found the end of the file"),
        ("// only a comment\n", "f:2:1: expected 'module' or 'func.func', found the end of the file"),
        ("module {", "f:1:9: module: expected func.func, module or '}', found the end of the file"),
        ("module { } }", "f:1:12: expected the end of the file, found '}'"),
        ("module { func.func f() }", "f:1:20: func.func: expected the function's name (@name), found 'f'"),
        ("func.func @f(%a) {}", "f:1:16: func.func: expected ':' and the type, found ')'"),
        ("func.func @f() {", "f:1:17: expected an operation or '}', found the end of the file"),
        ("module " * 3, "f:1:8: module: expected '{' before the module's body, found 'module'"),
    ],
)
def test_message_outside_functions(text: str, message: str) -> None:
    with pytest.raises(PtoError) as raised:
        parse(text, "f")
    assert str(raised.value) == message


def test_depth_is_limited() -> None:
    deep = "  scf.if %c {\n" * (MAX_DEPTH + 1)
    with pytest.raises(PtoError, match=f"scf.if: expected at most {MAX_DEPTH} nested regions"):
        parse(module(deep), "f")


def test_message_is_one_line_and_quotes_little() -> None:
    with pytest.raises(PtoError) as raised:
        parse(module("  pto.tload ins(" + "x" * 5000), "f")
    assert str(raised.value).endswith(f"found '{'x' * 37}...'")
    assert "\n" not in str(raised.value)


def test_message_holds_nothing_that_a_terminal_obeys() -> None:
    with pytest.raises(PtoError) as raised:
        parse(module("") + "\x1b]0;title\x07", "f")
    assert str(raised.value).endswith("expected the end of the file, found '\\x1b'")


def test_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PtoError) as raised:
        parse_file(tmp_path / "none.pto")
    assert str(raised.value) == f"{tmp_path / 'none.pto'}: cannot be read: No such file or directory"
