"""Checks: a module that fails each, with the exact message, and its good twin, which differs in one place."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pypto_build.pto import parse
from pypto_build.pto.checks import check_module
from tests.pto.samples import function, module, tile
from tests.rows import every

T, H, I8 = tile(), tile(dtype="f16"), tile(dtype="i8", cols=64)
COLUMN = tile(rows=16, cols=1, blayout="col_major")
LEFT, RIGHT, ACC = tile("left", 32, 64, "f16"), tile("right", 64, 32, "f16"), tile("acc", 32, 32)
MAT = tile("mat", 32, 64, "f16")
PART = "!pto.partition_tensor_view<16x64xf32>"
VIEW = "!pto.tensor_view<?x?xf32>"

CONSTANTS = """\
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %a0 = arith.constant 0 : i64
  %a1 = arith.constant 4096 : i64
  %f = arith.constant 1.0 : f32
  %i = arith.constant 1 : i32
"""


def alloc(name: str, type_: str, address: str = "%a0", rows: str = "%c16", cols: str = "%c64") -> str:
    return f"  {name} = pto.alloc_tile addr = {address} valid_row = {rows} valid_col = {cols} : {type_}\n"


A, B, C = alloc("%a", T), alloc("%b", T, "%a1"), alloc("%c", T, "%a1")
LOAD = (
    f"  %v = pto.make_tensor_view %g, shape = [%c64, %c64], strides = [%c64, %c1] : {VIEW}\n"
    f"  %p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c16, %c64] : {VIEW} -> {PART}\n"
)


@dataclass(frozen=True)
class Case:
    bad: str
    good: str
    message: str  # from the operation on
    kind: str = "vector"


def add(src0: str, src1: str, dst: str, types: tuple[str, str, str] = (T, T, T)) -> str:
    return f"  pto.tadd ins({src0}, {src1} : {types[0]}, {types[1]}) outs({dst} : {types[2]})"


def _planned(*names: str) -> str:
    """Return allocations of tiles whose addresses are left to the assembler."""
    return "".join(f"  {name} = pto.alloc_tile valid_row = %c16 valid_col = %c64 : {T}\n" for name in names)


_BRANCH = (
    "  %q = arith.cmpi slt, %c0, %c1 : index\n"
    f"  %r = scf.if %q -> ({T}) {{{{\n    scf.yield %t : {T}\n  }}}} else {{{{\n    scf.yield {{}} : {T}\n  }}}}"
)
THREE_POPS = "  pto.aiv_initialize_pipe {{dir_mask = 1, slot_size = 4096, slot_num = {slots}}}\n" + "".join(
    f"  %{name} = pto.tpop_from_aic {{{{split = 0}}}} -> {T}\n" for name in "tuv"
)
FREE = "  pto.tfree_from_aic {split = 0}\n"
CASES = {
    # names and types
    "undefined": Case(
        A + add("%a", "%x", "%a"), A + add("%a", "%a", "%a"), "pto.tadd: %x is used but not defined before"
    ),
    "redefined": Case(A + A, A + B, "pto.alloc_tile: %a is defined a second time"),
    "type differs": Case(
        alloc("%a", H) + add("%a", "%a", "%a"),
        A + add("%a", "%a", "%a"),
        f"pto.tadd: %a has type {H}, but is used as {T}",
    ),
    "kind": Case(
        "  pto.tadds ins(%f, %f : f32, f32) outs(%f : f32)",
        A + f"  pto.tadds ins(%a, %f : {T}, f32) outs(%a : {T})",
        "pto.tadds: src is a tile, but %f has type f32",
    ),
    # attributes and structure
    "attribute missing": Case(
        "  pto.tfree_from_aic {id = 0}",
        "  pto.barrier <PIPE_ALL>",
        "pto.tfree_from_aic: attribute 'split' is missing",
    ),
    "attribute unknown": Case(
        A + f"  pto.texp ins(%a : {T}) outs(%a : {T}) {{mode = 1}}",
        A + f"  pto.texp ins(%a : {T}) outs(%a : {T}) {{my.mode = 1}}",
        "pto.texp: unknown attribute 'mode' (allowed: precisionType)",
    ),
    "attribute case": Case(
        A + alloc("%h", H, "%a1") + f"  pto.tcvt ins(%a {{rmode = #pto<round_mode UP>}} : {T}) outs(%h : {H})",
        A + alloc("%h", H, "%a1") + f"  pto.tcvt ins(%a {{rmode = #pto<round_mode CEIL>}} : {T}) outs(%h : {H})",
        "pto.tcvt: attribute 'rmode' is one of NONE, RINT, ROUND, FLOOR, CEIL, TRUNC, ODD, CAST_RINT, "
        "found #pto<round_mode UP>",
    ),
    "attribute kind": Case(
        '  %r = pto.reserve_buffer {name = 1, size = 64, location = <vec>} -> i32',
        '  %r = pto.reserve_buffer {name = "n", size = 64, location = <vec>} -> i32',
        "pto.reserve_buffer: attribute 'name' is a str, found 1",
    ),
    "attributes of a buffer": Case(
        "  %r = pto.reserve_buffer {base = 0} -> i32",
        '  %r = pto.reserve_buffer {name = "n", size = 64, location = <vec>, base = 0} -> i32',
        "pto.reserve_buffer: attribute 'location' is missing",
    ),
    "core": Case(
        A + add("%a", "%a", "%a"),
        "",
        "pto.tadd: is an operation of the vector core, but the function is a cube kernel",
        "cube",
    ),
    "callee": Case(
        "  func.call @other() : () -> ()",
        "",
        "func.call: there is no function @other in the module",
    ),
    "yield missing": Case(
        "  %r = scf.for %j = %c0 to %c2 step %c1 iter_args(%x = %c0) -> (index) {\n  }",
        "  %r = scf.for %j = %c0 to %c2 step %c1 iter_args(%x = %c0) -> (index) {\n  scf.yield %x : index\n  }",
        "scf.for: the body does not end with scf.yield",
    ),
    "yield type": Case(
        "  %r = scf.for %j = %c0 to %c2 step %c1 iter_args(%x = %c0) -> (index) {\n  scf.yield %i : i32\n  }",
        "  %r = scf.for %j = %c0 to %c2 step %c1 iter_args(%x = %c0) -> (index) {\n  scf.yield %j : index\n  }",
        "scf.yield: %i has type i32, but scf.for expects index",
    ),
    # shapes and element types
    "element types": Case(
        A + alloc("%h", H, "%a1") + add("%a", "%h", "%a", (T, H, T)),
        A + B + add("%a", "%b", "%a"),
        "pto.tadd: src1 has elements f16, src0 has f32",
    ),
    "scalar type": Case(
        A + f"  pto.tadds ins(%a, %i : {T}, i32) outs(%a : {T})",
        A + f"  pto.tadds ins(%a, %f : {T}, f32) outs(%a : {T})",
        "pto.tadds: scalar is a i32, src has elements f32",
    ),
    "extents": Case(
        A + alloc("%b", T, "%a1", "%c2") + add("%a", "%a", "%b"),
        A + B + add("%a", "%a", "%b"),
        "pto.tadd: src0 has 16 valid rows, dst has 2 valid rows",
    ),
    "reduction": Case(
        A + B + f"  pto.trowsum ins(%a, %b : {T}, {T}) outs(%b : {T})",
        A
        + B
        + alloc("%s", COLUMN, "%a2", "%c16", "%c1")
        + f"  pto.trowsum ins(%a, %b : {T}, {T}) outs(%s : {COLUMN})",
        "pto.trowsum: dst has 64 valid columns, expected 1",
    ),
    "column reduction": Case(
        A + alloc("%s", T, "%a1", "%c1", "%c32") + f"  pto.tcolmax ins(%a : {T}) outs(%s : {T})",
        A + alloc("%s", T, "%a1", "%c1", "%c64") + f"  pto.tcolmax ins(%a : {T}) outs(%s : {T})",
        "pto.tcolmax: src has 64 valid columns, dst has 32 valid columns",
    ),
    "row broadcast": Case(
        A
        + alloc("%s", COLUMN, "%a1", "%c2", "%c1")
        + f"  pto.trowexpandmul ins(%a, %s : {T}, {COLUMN}) outs(%a : {T})",
        A
        + alloc("%s", COLUMN, "%a1", "%c16", "%c1")
        + f"  pto.trowexpandmul ins(%a, %s : {T}, {COLUMN}) outs(%a : {T})",
        "pto.trowexpandmul: src1 has 2 valid rows, dst has 16 valid rows",
    ),
    "matmul extents": Case(
        alloc("%l", LEFT, "%a0", "%c32", "%c32")
        + alloc("%r", RIGHT, "%a0", "%c64", "%c32")
        + alloc("%d", ACC, "%a0", "%c32", "%c32")
        + f"  pto.tmatmul ins(%l, %r : {LEFT}, {RIGHT}) outs(%d : {ACC})",
        alloc("%l", LEFT, "%a0", "%c32", "%c64")
        + alloc("%r", RIGHT, "%a0", "%c64", "%c32")
        + alloc("%d", ACC, "%a0", "%c32", "%c32")
        + f"  pto.tmatmul ins(%l, %r : {LEFT}, {RIGHT}) outs(%d : {ACC})",
        "pto.tmatmul: a has 32 valid columns, b has 64 valid rows",
        "cube",
    ),
    "matmul elements": Case(
        alloc("%l", LEFT, "%a0", "%c32", "%c64")
        + alloc("%r", RIGHT, "%a0", "%c64", "%c32")
        + alloc("%d", tile("acc", 32, 32, "i32"), "%a0", "%c32", "%c32")
        + f"  pto.tmatmul ins(%l, %r : {LEFT}, {RIGHT}) outs(%d : {tile('acc', 32, 32, 'i32')})",
        alloc("%l", LEFT, "%a0", "%c32", "%c64")
        + alloc("%r", RIGHT, "%a0", "%c64", "%c32")
        + alloc("%d", ACC, "%a0", "%c32", "%c32")
        + f"  pto.tmatmul ins(%l, %r : {LEFT}, {RIGHT}) outs(%d : {ACC})",
        "pto.tmatmul: f16 x f16 accumulates in f32, dst has elements i32",
        "cube",
    ),
    "transfer elements": Case(
        LOAD + alloc("%a", H) + f"  pto.tload ins(%p : {PART}) outs(%a : {H})",
        LOAD + A + f"  pto.tload ins(%p : {PART}) outs(%a : {T})",
        "pto.tload: the tile has elements f16, global memory f32",
    ),
    "transfer size": Case(
        LOAD
        + alloc("%a", tile(rows=32), "%a0", "%c32")
        + f"  pto.tload ins(%p : {PART}) outs(%a : {tile(rows=32)})",
        LOAD + A + f"  pto.tload ins(%p : {PART}) outs(%a : {T})",
        "pto.tload: the tile has 32 x 64 valid elements, the partition only 16x64",
    ),
    "view pointer": Case(
        "  %v = pto.make_tensor_view %g, shape = [%c2], strides = [%c1] : !pto.tensor_view<?xf16>",
        "  %v = pto.make_tensor_view %g, shape = [%c2], strides = [%c1] : !pto.tensor_view<?xf32>",
        "pto.make_tensor_view: the pointer has elements f32, the view f16",
    ),
    "view strides": Case(
        f"  %v = pto.make_tensor_view %g, shape = [%c2, %c2], strides = [%c1] : {VIEW}",
        f"  %v = pto.make_tensor_view %g, shape = [%c2, %c2], strides = [%c2, %c1] : {VIEW}",
        "pto.make_tensor_view: 2 extents, but 1 strides",
    ),
    "partition outside": Case(
        LOAD.replace("offsets = [%c0", "offsets = [%c64"),
        LOAD.replace("offsets = [%c0", "offsets = [%c32"),
        "pto.partition_view: axis 0: 64 to 80 lies outside the view, which has 64",
    ),
    "partition size": Case(
        LOAD.replace("sizes = [%c16", "sizes = [%c32"),
        LOAD,
        "pto.partition_view: size 0 is 32, the type has 16",
    ),
    "window outside": Case(
        A + f"  pto.textract ins(%a, %c2, %c0 : {T}, index, index) outs(%b2 : {T})".replace("%b2", "%a"),
        A + f"  pto.textract ins(%a, %c0, %c0 : {T}, index, index) outs(%a : {T})",
        "pto.textract: rows 2 to 18 lie outside src, which has 16",
    ),
    "move": Case(
        alloc("%l", LEFT, "%a0", "%c32", "%c64")
        + alloc("%m", MAT, "%a0", "%c32", "%c64")
        + f"  pto.tmov ins(%l : {LEFT}) outs(%m : {MAT})",
        alloc("%l", LEFT, "%a0", "%c32", "%c64")
        + alloc("%m", MAT, "%a0", "%c32", "%c64")
        + f"  pto.tmov ins(%m : {MAT}) outs(%l : {LEFT})",
        "pto.tmov: moves data not from left, found left to mat",
        "cube",
    ),
    "reinterpret": Case(
        A + f"  %r = pto.treshape %a : {T} -> {tile(rows=8)}",
        A + f"  %r = pto.treshape %a : {T} -> {tile(rows=8, cols=128)}",
        "pto.treshape: reinterprets 4096 bytes as 2048",
    ),
    "valid extent": Case(
        alloc("%a", T, "%a0", "%c32"),
        A,
        "pto.alloc_tile: 32 valid rows of 16",
    ),
    "mask": Case(
        A + B + f"  pto.tcmp ins(%a, %b {{cmpMode = #pto<cmp lt>}} : {T}, {T}) outs(%b : {T})",
        A + alloc("%m", I8, "%a1")
        + f"  pto.tcmp ins(%a, %a {{cmpMode = #pto<cmp lt>}} : {T}, {T}) outs(%m : {I8})",
        "pto.tcmp: dst holds a bit mask, found elements f32",
    ),
    "selected": Case(
        A + alloc("%h", H, "%a1") + alloc("%m", I8, "%a2")
        + f"  pto.tsel ins(%m, %a, %a, %a : {I8}, {T}, {T}, {T}) outs(%h : {H})",
        A + alloc("%m", I8, "%a2") + alloc("%t", T, "%a1")
        + f"  pto.tsel ins(%m, %a, %a, %t : {I8}, {T}, {T}, {T}) outs(%a : {T})",
        "pto.tsel: src0 has elements f32, dst has f16",
    ),
    "scalar operands": Case(
        "  %x = arith.addi %c1, %i : index",
        "  %x = arith.addi %c1, %c2 : index",
        "arith.addi: rhs has type i32, the result index",
    ),
    "compared scalars": Case(
        "  %x = arith.cmpi eq, %c1, %i : index",
        "  %x = arith.cmpi eq, %c1, %c2 : index",
        "arith.cmpi: lhs has type index, rhs i32",
    ),
    "subview": Case(
        A + f"  %w = pto.subview %a[%c2, %c0] sizes [16, 8] : {T} -> {T}",
        A + f"  %w = pto.subview %a[%c0, %c0] sizes [16, 8] : {T} -> {T}",
        "pto.subview: rows 2 to 18 lie outside src, which has 16",
    ),
    # memory
    "space": Case(
        alloc("%m", tile("mat", 16, 64), "%a0") + add("%m", "%m", "%m", (tile("mat"),) * 3),
        A + add("%a", "%a", "%a"),
        "pto.tadd: src0 is a tile in vec, but %m is in mat",
    ),
    "alignment": Case(
        "  %odd = arith.constant 48 : i64\n" + alloc("%a", T, "%odd"),
        "  %odd = arith.constant 64 : i64\n" + alloc("%a", T, "%odd"),
        "pto.alloc_tile: address 48 is not a multiple of 32",
    ),
    "capacity": Case(
        "  %far = arith.constant 193536 : i64\n" + alloc("%a", T, "%far"),
        "  %far = arith.constant 192512 : i64\n" + alloc("%a", T, "%far"),
        "pto.alloc_tile: bytes 193536 to 197632 do not fit into vec, which has 196608 on a2a3",
    ),
    "row bytes": Case(
        alloc("%a", tile(cols=4), "%a0", "%c16", "%c2"),
        alloc("%a", tile(cols=8), "%a0", "%c16", "%c2"),
        "pto.alloc_tile: a row of 4 f32 has 16 bytes, not a multiple of 32",
    ),
    "fractals": Case(
        alloc("%a", tile("mat", 8, 64), "%a0", "%c2"),
        alloc("%a", tile("mat", 16, 64), "%a0", "%c2"),
        "pto.alloc_tile: 8 rows are not a multiple of the 16 x 8 fractal of f32",
        "cube",
    ),
    "buffer": Case(
        '  %r = pto.reserve_buffer {name = "n", size = 8192, location = <vec>, base = 0} -> i32\n' + B,
        '  %r = pto.reserve_buffer {name = "n", size = 4096, location = <vec>, base = 0} -> i32\n' + B,
        'pto.alloc_tile: bytes 4096 to 8192 lie in the buffer "n" (vec 0 to 8192)',
    ),
    # stale tiles
    "stale": Case(
        A + f"  pto.texpands ins(%f : f32) outs(%a : {T})\n" + alloc("%b", T) + "  %z = arith.constant 2.0 : f32\n"
        f"  pto.texpands ins(%z : f32) outs(%b : {T})\n" + C + add("%a", "%b", "%c"),
        A + f"  pto.texpands ins(%f : f32) outs(%a : {T})\n" + alloc("%b", T) + C + add("%a", "%b", "%c"),
        "pto.tadd: reads %a, whose bytes (vec 0 to 4096) %b overwrote (pto.texpands)",
    ),
    "stale through a reinterpretation": Case(
        A + f"  pto.texpands ins(%f : f32) outs(%a : {T})\n" + alloc("%h", H)
        + f"  pto.tcvt ins(%a : {T}) outs(%h : {H})\n" + C + add("%a", "%a", "%c"),
        A + f"  pto.texpands ins(%f : f32) outs(%a : {T})\n" + alloc("%h", H, "%a1")
        + f"  pto.tcvt ins(%a : {T}) outs(%h : {H})\n" + alloc("%c", T, "%a1") + add("%a", "%a", "%c"),
        "pto.tadd: reads %a, whose bytes (vec 0 to 4096) %h overwrote (pto.tcvt)",
    ),
    # tiles of loops and branches
    "a loop carries two buffers": Case(
        _planned("%t", "%n") + "  %r = scf.for %j = %c0 to %c16 step %c1 iter_args(%x = %t) -> (" + T + ") {\n"
        + add("%x", "%x", "%n") + f"\n    scf.yield %n : {T}\n  }}",
        _planned("%t", "%n") + "  %r = scf.for %j = %c0 to %c16 step %c1 iter_args(%x = %t) -> (" + T + ") {\n"
        + add("%x", "%x", "%x") + f"\n    scf.yield %x : {T}\n  }}",
        "scf.yield: yields %n, but the loop carries %t: without addresses ptoas gives them two buffers; "
        "write the result into %t",
    ),
    "a branch yields two buffers": Case(
        _planned("%t", "%n") + _BRANCH.format("%n"),
        A + B + _BRANCH.replace("%t", "%a").format("%b"),
        "scf.yield: yields %n, but 'then' yields %t: without addresses ptoas gives them two buffers; "
        "write the result into %t",
    ),
    # pipes
    "pipe not opened": Case(
        f"  %t = pto.tpop_from_aic {{split = 0}} -> {T}",
        "",
        "pto.tpop_from_aic: pipe 0 is not opened in @k",
    ),
    "pops and frees": Case(
        f"  pto.aiv_initialize_pipe {{dir_mask = 1, slot_size = 4096}}\n  %t = pto.tpop_from_aic {{split = 0}} -> {T}",
        f"  pto.aiv_initialize_pipe {{dir_mask = 1, slot_size = 4096}}\n  %t = pto.tpop_from_aic {{split = 0}} -> {T}\n"
        "  pto.tfree_from_aic {split = 0}",
        "pto.tpop_from_aic: pipe 0 to_aiv: 1 pops, but 0 frees in @k",
    ),
    "more popped tiles than slots": Case(
        THREE_POPS.format(slots=2) + C + add("%t", "%u", "%c") + add("%v", "%c", "%c") + FREE * 3,
        THREE_POPS.format(slots=3) + C + add("%t", "%u", "%c") + add("%v", "%c", "%c") + FREE * 3,
        "pto.tpop_from_aic: 3 popped tiles are in use at the same time, but the pipe has only 2 slots for them",
    ),
    "use behind the free": Case(
        THREE_POPS.format(slots=4) + C + FREE * 3 + add("%t", "%u", "%c"),
        THREE_POPS.format(slots=4) + C + add("%t", "%u", "%c") + FREE * 3,
        "pto.tadd: uses %t after pto.tfree_from_aic, which released its slot",
    ),
    "direction": Case(
        A + f"  pto.aiv_initialize_pipe {{dir_mask = 1, slot_size = 4096}}\n  pto.tpush_to_aic(%a : {T}) {{split = 0}}",
        A + f"  pto.aiv_initialize_pipe {{dir_mask = 2, slot_size = 4096}}\n  pto.tpush_to_aic(%a : {T}) {{split = 0}}",
        "pto.tpush_to_aic: pipe 0 is opened with dir_mask 1, which has no to_aic",
    ),
    "slot": Case(
        A + f"  pto.aiv_initialize_pipe {{dir_mask = 2, slot_size = 1024}}\n  pto.tpush_to_aic(%a : {T}) {{split = 0}}",
        A + f"  pto.aiv_initialize_pipe {{dir_mask = 2, slot_size = 4096}}\n  pto.tpush_to_aic(%a : {T}) {{split = 0}}",
        "pto.tpush_to_aic: a tile of 4096 bytes does not fit into a slot of 1024",
    ),
}  # fmt: skip


def errors(body: str, kind: str = "vector", platform: str = "") -> list[str]:
    """Messages without their places."""
    text = module(CONSTANTS + "  %a2 = arith.constant 8192 : i64\n" + body, "%g: !pto.ptr<f32>", kind)
    return [str(error).split(": ", 1)[1] for error in check_module(parse(text, "k.pto"), platform)]


@every("name", CASES)
def test_bad(name: str) -> None:
    case = CASES[name]
    assert case.message in errors(case.bad, case.kind)


@every("name", CASES)
def test_good_twin(name: str) -> None:
    assert errors(CASES[name].good, CASES[name].kind) == []


def test_place_and_order() -> None:
    text = module(CONSTANTS + "  %x = arith.addi %u, %c0 : index\n  %y = arith.addi %w, %c0 : index")
    assert [str(e) for e in check_module(parse(text, "k.pto"))] == [
        "k.pto:13:3: arith.addi: %u is used but not defined before",
        "k.pto:14:3: arith.addi: %w is used but not defined before",
    ]


@pytest.mark.parametrize(("platform", "fits"), [("a2a3", False), ("a2a3sim", False), ("a5", True), ("a5sim", True)])
def test_capacity_is_that_of_the_platform(platform: str, fits: bool) -> None:
    body = "  %far = arith.constant 200704 : i64\n" + alloc("%a", T, "%far")
    message = "pto.alloc_tile: bytes 200704 to 204800 do not fit into vec, which has 196608 on a2a3"
    assert errors(body, platform=platform) == ([] if fits else [message])


def test_function_without_return() -> None:
    text = "func.func @f() {\n  %c = arith.constant 0 : index\n}\n"
    assert [str(e) for e in check_module(parse(text, "f"))] == [
        "f:2:3: arith.constant: the function does not end with return"
    ]


_RESERVE = '  %r = pto.reserve_buffer {{name = "{0}", size = 8192, location = <mat>, auto = true}} -> i32\n'
_IMPORT = '  %r = pto.import_reserved_buffer {{name = "{0}", peer_func = @cube}} -> i32\n'
_ASSIGN = f"  %u = pto.tassign %a, %a0 : {T} -> {T}"
_L2L = "  %p = pto.initialize_l2l_pipe {dir_mask = 2, slot_size = 1024, slot_num = 8}(%r : i32) -> !pto.pipe"


def _pair(vector: str) -> str:
    return function(_RESERVE.format("fifo") + _L2L, "", "cube", "cube") + function(vector, "", "vector", "vec")


#: A module that fails, its twin that differs in one place, and the message.
MODULES = {
    "an entry with a result": (
        "func.func @k(%a: i32) -> i32 {\n  return %a : i32\n}\n",
        "func.func @k(%a: i32) {\n  return\n}\n",
        "return: @k is an entry, and returns no value",
    ),
    "a marked entry with a result": (
        "func.func @k(%a: i32) -> i32 attributes {pto.entry} {\n  return %a : i32\n}\n"
        "func.func private @h() {\n  return\n}\n",
        "func.func @k() attributes {pto.entry} {\n  return\n}\n"
        "func.func private @h(%a: i32) -> i32 {\n  return %a : i32\n}\n",
        "return: @k is an entry, and returns no value",
    ),
    "recursion": (
        "func.func @k() {\n  func.call @h() : () -> ()\n  return\n}\n"
        "func.func private @h() {\n  func.call @k() : () -> ()\n  return\n}\n",
        "func.func @k() {\n  func.call @h() : () -> ()\n  return\n}\nfunc.func private @h() {\n  return\n}\n",
        "func.call: @k calls itself, which no kernel can",
    ),
    "call arguments": (
        "func.func @k(%a: i32) {\n  func.call @h() : () -> ()\n  return\n}\n"
        "func.func private @h(%a: i32) {\n  return\n}\n",
        "func.func @k(%a: i32) {\n  func.call @h(%a) : (i32) -> ()\n  return\n}\n"
        "func.func private @h(%a: i32) {\n  return\n}\n",
        "func.call: @h takes 1 arguments, found 0",
    ),
    "a tile without an address beside tassign": (
        module(CONSTANTS + A.replace(" addr = %a0", "") + _ASSIGN),
        module(CONSTANTS + A + _ASSIGN),
        "pto.alloc_tile: has no addr, which each tile needs beside pto.tassign",
    ),
    "a pipe's buffer from elsewhere": (
        _pair("  %r = arith.constant 0 : i32\n" + _L2L),
        _pair(_IMPORT.format("fifo") + _L2L),
        (
            "pto.initialize_l2l_pipe: the buffer of the pipe is not a result of pto.reserve_buffer or "
            "pto.import_reserved_buffer"
        ),
    ),
    "a pipe with one end": (
        _pair(_IMPORT.format("fifo")),
        _pair(_IMPORT.format("fifo") + _L2L),
        'pto.initialize_l2l_pipe: no pipe of another function is opened on buffer "fifo"',
    ),
    "a pipe with another buffer at its other end": (
        _pair(_IMPORT.format("other") + _L2L),
        _pair(_IMPORT.format("fifo") + _L2L),
        'pto.initialize_l2l_pipe: no pipe of another function is opened on buffer "other"',
    ),
}


@every("name", MODULES)
def test_modules(name: str) -> None:
    bad, good, message = MODULES[name]
    assert message in [str(error).split(": ", 1)[1] for error in check_module(parse(bad, "k.pto"))]
    assert check_module(parse(good, "k.pto")) == []
