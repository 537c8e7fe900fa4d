"""The C++ that comes out: its form, what is refused, and the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.pto import PtoError, parse
from pypto_build.pto.assemble import assemble, main
from pypto_build.pto.torch import generate
from tests.pto.samples import module, tile
from tests.rows import every

T = tile(rows=16, cols=64)
TILE = (
    "Tile<TileType::Vec, float, 16, 64, BLayout::RowMajor, -1, -1, SLayout::NoneBox, 512, PadValue::Null, "
    "CompactMode::Null>"
)
HEADER = "static __aicore__ void k(__gm__ float* g, int64_t n) {\n#if defined(__DAV_VEC__)\n"
START = "    set_mask_norm();\n    set_vector_mask(-1, -1);\n"
END = "    pipe_barrier(PIPE_ALL);\n#endif // __DAV_VEC__\n}\n"

CONSTANTS = """\
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %a0 = arith.constant 0 : i64
  %f = arith.constant 1.5 : f32
"""
ALLOC = f"  %t = pto.alloc_tile addr = %a0 valid_row = %c16 valid_col = %n : {T}\n"


def body(text: str, platform: str = "a2a3sim") -> str:
    """The statements of the function, constants and frame left out."""
    source = module(CONSTANTS + text, "%g: !pto.ptr<f32>, %n: index")
    made = assemble(parse(source, "k.pto"), platform).text
    assert made.startswith(HEADER + START), made
    assert made.endswith(END), made
    lines = made[len(HEADER + START) : -len(END)].split("\n")
    return "\n".join(line[4:] if line.startswith("    ") else line for line in lines if "f = 1.5f" not in line).rstrip()


def test_tile_and_instruction() -> None:
    assert body(ALLOC + f"  pto.tadds ins(%t, %f : {T}, f32) outs(%t : {T})") == (
        f"{TILE} t(16, n);\nTASSIGN(t, 0);\nTADDS(t, t, f);"
    )


def test_global_tensor_has_known_extents_in_its_type() -> None:
    text = body(
        ALLOC + "  %v = pto.make_tensor_view %g, shape = [%n, %c64], strides = [%c64, %c1] "
        "{layout = #pto.layout<nd>} : !pto.tensor_view<?x?xf32>\n"
        "  %p = pto.partition_view %v, offsets = [%n, %c4], sizes = [%c16, %n] : "
        "!pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<16x?xf32>\n"
        f"  pto.tload ins(%p : !pto.partition_tensor_view<16x?xf32>) outs(%t : {T})"
    )
    assert text.split("\n")[2:] == [
        "GlobalTensor<float, pto::Shape<1, 1, 1, 16, -1>, pto::Stride<1024, 1024, 1024, 64, 1>, pto::Layout::ND> "
        "p_tensor(g + (n * 64 + 4), pto::Shape<1, 1, 1, 16, -1>(n), pto::Stride<1024, 1024, 1024, 64, 1>());",
        "TLOAD(t, p_tensor);",
    ]


def test_loop_assigns_all_carried_values_at_once() -> None:
    text = body(
        "  %r:2 = scf.for %i = %c0 to %n step %c4 iter_args(%x = %n, %y = %c16) -> (index, index) {\n"
        "    scf.yield %y, %x : index, index\n  }\n"
        "  %s = arith.addi %r#0, %r#1 : index"
    )
    assert text == (
        "int64_t r_0 = n;\nint64_t r_1 = 16;\nfor (int64_t i = 0; i < n; i += 4) {\n"
        "    const int64_t next_r_0 = r_1;\n    const int64_t next_r_1 = r_0;\n"
        "    r_0 = next_r_0;\n    r_1 = next_r_1;\n"
        "}\nconst int64_t s = r_0 + r_1;"
    )


def test_branch_with_a_result() -> None:
    text = body(
        "  %b = arith.cmpi slt, %n, %c4 : index\n"
        "  %r = scf.if %b -> (index) {\n    %m = arith.muli %n, %c4 : index\n    scf.yield %m : index\n"
        "  } else {\n    scf.yield %n : index\n  }\n  %s = arith.addi %r, %c1 : index"
    )
    assert text == (
        "const bool b = n < 4;\nint64_t r;\n"
        "if (b) {\n    const int64_t m = n * 4;\n    r = m;\n} else {\n    r = n;\n}\n"
        "const int64_t s = r + 1;"
    )


def test_while() -> None:
    text = body(
        "  %r = scf.while (%x = %n) : (index) -> index {\n    %b = arith.cmpi sgt, %x, %c4 : index\n"
        "    scf.condition(%b) %x : index\n  } do {\n  ^bb0(%y: index):\n    %z = arith.subi %y, %c1 : index\n"
        "    scf.yield %z : index\n  }\n  %s = arith.addi %r, %c1 : index"
    )
    assert text == (
        "int64_t x = n;\nint64_t r;\nwhile (true) {\n    const bool b = x > 4;\n    r = x;\n    if (!b) break;\n"
        "    const int64_t z = x - 1;\n    x = z;\n}\nconst int64_t s = r + 1;"
    )


def test_pipes() -> None:
    text = body(
        ALLOC
        + '  %b = pto.reserve_buffer {name = "n", size = 8192, location = #pto.address_space<vec>, base = 256} -> i32\n'
        "  %z = arith.constant 0 : i32\n"
        "  pto.aiv_initialize_pipe {dir_mask = 3, slot_size = 4096}\n"
        "      (gm_slot_buffer = %g : !pto.ptr<f32>, c2v_consumer_buf = %b : i32, v2c_consumer_buf = %z : i32)\n"
        f"  pto.tpush_to_aic(%t : {T}) {{split = 2}}\n"
        f"  %u = pto.tpop_from_aic(%c16, %n) {{split = 2}} -> {T}\n"
        "  pto.tfree_from_aic {split = 2}"
    )
    assert text.split("\n")[2:] == [
        "auto pipe0 = TPipe<0, Direction::DIR_BOTH, 4096, 4, 4, false>(g, 256, 0);",
        "TPUSH<decltype(pipe0), decltype(t), TileSplitAxis::TILE_LEFT_RIGHT>(pipe0, t);",
        f"{TILE} u(16, n);",
        "TPOP<decltype(pipe0), decltype(u), TileSplitAxis::TILE_LEFT_RIGHT>(pipe0, u);",
        "TFREE<decltype(pipe0), TileSplitAxis::TILE_LEFT_RIGHT>(pipe0);",
    ]


H = tile(rows=16, cols=64, dtype="f16")
COLUMN = tile(rows=16, cols=1, blayout="col_major")
I32 = tile(rows=1, cols=64, dtype="i32")
INSTRUCTIONS = [
    ("pto.tcvt ins(%t : {T}) outs(%h : {H})", "TCVT(h, t, RoundMode::CAST_RINT, SaturationMode::OFF);"),
    (
        "pto.tcvt ins(%t {{rmode = #pto<round_mode TRUNC>, sat_mode = #pto<saturation_mode ON>}} : {T}) outs(%h : {H})",
        "TCVT(h, t, RoundMode::CAST_TRUNC, SaturationMode::ON);",
    ),
    ("pto.trowsum ins(%t : {T}) outs(%s : {S})", "TROWSUM(s, t, t);"),
    ("pto.trowmax ins(%t, %t : {T}, {T}) outs(%s : {S})", "TROWMAX(s, t, t);"),
    ("pto.tcolsum ins(%t, %t {{isBinary = true}} : {T}, {T}) outs(%t : {T})", "TCOLSUM(t, t, t, true);"),
    ("pto.tdivs ins(%t, %f : {T}, f32) outs(%t : {T})", "TDIVS(t, t, f);"),
    ("pto.tdivs ins(%f, %t : f32, {T}) outs(%t : {T})", "TDIVS(t, f, t);"),
    ("pto.tcmps ins(%t, %f {{cmpMode = #pto<cmp ge>}} : {T}, f32) outs(%t : {T})", "TCMPS(t, t, f, CmpMode::GE);"),
    ("pto.taddc ins(%t, %t, %t : {T}, {T}, {T}) outs(%t : {T})", "TADD(t, t, t);\nTADD(t, t, t);"),
    ("pto.tsubsc ins(%t, %f, %t : {T}, f32, {T}) outs(%t : {T})", "TSUBS(t, t, f);\nTADD(t, t, t);"),
    ("pto.tci ins(%i : i32) outs(%j : {I})", "TCI<decltype(j), int32_t, 0>(j, (int32_t)7);"),
    (
        "pto.tgather ins(%t, {{maskPattern = #pto.mask_pattern<P0101>}} : {T}, \"row\") outs(%t : {T})",
        "TGATHER<decltype(t), decltype(t), MaskPattern::P0101>(t, t);",
    ),
    ("pto.set_validshape %t, %c4, %n : {T}", "t.SetValidShape(4, n);"),
    (
        "pto.tdivs ins(%t, %f : {T}, f32) outs(%t : {T}) {{precisionType = #pto<div_precision high_precision>}}",
        "TDIVS<pto::DivAlgorithm::HIGH_PRECISION>(t, t, f);",
    ),
    ("pto.barrier <PIPE_ALL>", "pipe_barrier(PIPE_ALL);"),
    (
        "%w = pto.subview %t[%c4, %c0] sizes [4, 64] : {T} -> {W}",
        "{TILE} w(4, 64);\nTASSIGN(w, (uint64_t)(t.data() + decltype(t)::GetOffset(4, 0)));",
    ),
    (
        "%r = pto.treshape %t : {T} -> {T}",
        "{TILE} r(16, 64);\nTASSIGN(r, (uint64_t)t.data());",
    ),
    ("%e = pto.tgetval ins(%t, %n : {T}, index) outs : f32", "const float e = (float)t.GetValue(n);"),
    ("pto.store_scalar %f, %g[%n] : !pto.ptr<f32>, f32", "g[n] = f;"),
]  # fmt: skip


@every(("operation", "expected"), INSTRUCTIONS)
def test_instruction(operation: str, expected: str) -> None:
    types = {"T": T, "H": H, "S": COLUMN, "I": I32, "W": tile(rows=4)}
    tiles = "".join(
        f"  %{name} = pto.alloc_tile addr = %a0 : {type_}\n"
        for name, type_ in (("t", T), ("h", H), ("s", COLUMN), ("j", I32))
    )
    text = body(tiles + "  %i = arith.constant 7 : i32\n  " + operation.format(**types))
    assert "\n".join(text.split("\n")[8:]) == expected.replace("{TILE}", TILE)


def test_tiles_without_an_address_get_bytes_of_their_own() -> None:
    text = body(f"  %p = pto.alloc_tile : {T}\n  %q = pto.alloc_tile addr = %a0 : {T}\n  %r = pto.alloc_tile : {T}")
    assert [line for line in text.split("\n") if "TASSIGN" in line] == [
        "TASSIGN(p, 4096);",
        "TASSIGN(q, 0);",
        "TASSIGN(r, 8192);",
    ]


def test_names_are_c_and_do_not_collide() -> None:
    text = body(
        "  %0 = arith.addi %n, %n : index\n  %v0 = arith.addi %n, %n : index\n  %for = arith.addi %n, %n : index\n"
        "  %a.b = arith.addi %n, %n : index"
    )
    assert [line.split()[2] for line in text.split("\n")] == ["v0", "v0_1", "for_1", "a_b"]


def test_lines_point_to_the_source() -> None:
    made = assemble(parse(module(CONSTANTS + ALLOC, "%g: !pto.ptr<f32>, %n: index"), "k.pto"), "a2a3sim")
    lines = made.text.split("\n")
    assert len(lines) == len(made.lines)
    assert {made.lines[i] for i, line in enumerate(lines) if "TASSIGN" in line} == {10}
    assert made.functions == ("k",)


def test_flags_between_cores_are_calls_of_the_platform() -> None:
    text = "  pto.sync.set <PIPE_FIX>, 1\n  pto.sync.set <PIPE_FIX>, %n {ffts_mode = 1 : i32}\n"
    text += "  pto.sync.wait <PIPE_V>, 2\n"
    assert body(text).split("\n") == [
        "ffts_cross_core_sync(PIPE_FIX, getFFTSMsg(FFTS_MODE_VAL, 1));",
        "ffts_cross_core_sync(PIPE_FIX, getFFTSMsg(1, n));",
        "wait_flag_dev(2);",
    ]
    assert body(text, "a5sim").split("\n") == [
        "set_intra_block(PIPE_FIX, 1);",
        "set_intra_block(PIPE_FIX, n);",
        "wait_intra_block(PIPE_V, 2);",
    ]


def test_a_number_is_printed_by_its_format() -> None:
    text = '  pto.print ins("x %d\\n", %n : index)\n  %h = arith.constant 1.5 : f16\n  pto.print ins("%f", %h : f16)'
    assert parse(module(CONSTANTS + text, "%g: !pto.ptr<f32>, %n: index")).functions()
    lines = body(text).split("\n")
    assert (lines[0], lines[-1]) == ('cce::printf("x %d\\n", n);', 'cce::printf("%f", float(h));')


def test_tiles_of_memref_lie_beside_each_other() -> None:
    buffer = "memref<16x64xf32, #pto.address_space<vec>>"
    text = body(
        f"  %a = memref.alloc() : {buffer}\n  %b = memref.alloc() : {buffer}\n"
        f"  pto.tadds ins(%a, %f : {buffer}, f32) outs(%b : {buffer})\n  memref.dealloc %a : {buffer}"
    )
    tile = TILE.replace("-1, -1", "16, 64")
    assert text == f"{tile} a;\nTASSIGN(a, 0);\n{tile} b;\nTASSIGN(b, 4096);\nTADDS(b, a, f);"


def test_a_function_returns_its_value() -> None:
    text = (
        "module {\nfunc.func private @next(%i: index) -> index {\n  %c1 = arith.constant 1 : index\n"
        "  %s = arith.addi %i, %c1 : index\n  return %s : index\n}\n"
        "func.func @k(%n: index) {\n  %v = func.call @next(%n) : (index) -> index\n"
        "  %w = arith.addi %v, %n : index\n  return\n}\n}\n"
    )
    made = assemble(parse(text), "a2a3sim")
    assert made.text == (
        "static __aicore__ int64_t next(int64_t i) {\n    const int64_t s = i + 1;\n    return s;\n}\n\n"
        "static __aicore__ void k(int64_t n) {\n    const int64_t v = next(n);\n    const int64_t w = v + n;\n}\n"
    )
    several = text.replace("-> index {", "-> (index, index) {").replace(
        "return %s : index", "return %s, %i : index, index"
    )
    with pytest.raises(PtoError, match="returns several values, but a C\\+\\+ function returns one"):
        assemble(
            parse(several.replace("%v = func.call @next(%n) : (index) -> index", "%v = arith.addi %n, %n : index")),
            "a2a3sim",
        )


def test_functions_come_after_those_they_call() -> None:
    text = (
        "module {\nfunc.func @a() attributes {pto.entry} {\n  func.call @b() : () -> ()\n  return\n}\n"
        "func.func @b() {\n  return\n}\nfunc.func private @c()\n}\n"
    )
    made = assemble(parse(text), "a5sim")
    assert made.functions == ("b", "a")
    assert made.text == "static __aicore__ void b() {\n}\n\nstatic __aicore__ void a() {\n    b();\n}\n"


REFUSED = {
    "pto.tfree_from_aic {split = 0}": "k.pto:10:3: pto.tfree_from_aic: the pipe was not opened in this function",
    '%b = pto.import_reserved_buffer {name = "x", peer_func = @other} -> i32': (
        'k.pto:10:3: pto.import_reserved_buffer: @other has no pto.reserve_buffer named "x"'
    ),
    "%u = arith.addi %nowhere, %n : index": "k.pto:10:3: arith.addi: %nowhere is used but not defined before",
    f"%u = pto.alloc_tile : {tile(rows=1024)}": (
        "k.pto:10:3: pto.alloc_tile: has no address, and 262144 bytes do not fit into vec beside "
        "the other tiles; give addresses"
    ),
}


@pytest.mark.parametrize("operation", REFUSED, ids=lambda v: v.split(" ")[0])
def test_refused(operation: str) -> None:
    with pytest.raises(PtoError) as raised:
        assemble(parse(module(CONSTANTS + "  " + operation, "%g: !pto.ptr<f32>, %n: index"), "k.pto"), "a2a3sim")
    assert str(raised.value) == REFUSED[operation]


@pytest.mark.parametrize("platform", ["a2a3", "a5"])
def test_hardware_is_refused(platform: str) -> None:
    with pytest.raises(PtoError) as raised:
        assemble(parse(module(""), "k.pto"), platform)
    assert str(raised.value) == (
        f"k.pto: {platform} needs ptoas: the built-in assembler inserts no pipeline synchronisation; "
        f"set PTOAS_ROOT, or build for {platform}sim"
    )


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unit, output = tmp_path / "u.pto", tmp_path / "out" / "u.cpp"
    unit.write_text(module(""))
    assert main([str(unit), "--platform", "a2a3sim", "-o", str(output)]) == 0
    made = output.read_text()
    assert made.startswith("static __aicore__ void k() {\n")

    unit.write_text("module {")
    assert main([str(unit), "--platform", "a2a3sim", "-o", str(output)]) == 1
    expected = f"error: {unit}:1:9: module: expected func.func, module or '}}', found the end of the file\n"
    assert capsys.readouterr().err == expected
    assert output.read_text() == made, "a failed assembly leaves the output as it was"
    assert [p.name for p in output.parent.iterdir()] == ["u.cpp"]


def test_command_line_warns_of_what_the_checks_find(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unit, output = tmp_path / "u.pto", tmp_path / "u.cpp"
    fixed = T.replace("v_row=?, v_col=?", "v_row=16, v_col=64")
    unit.write_text(module(f"  %a = arith.constant 48 : i64\n  %t = pto.alloc_tile addr = %a : {fixed}"))
    assert main([str(unit), "--platform", "a2a3sim", "-o", str(output)]) == 0
    assert capsys.readouterr().err == (f"warning: {unit}:4:3: pto.alloc_tile: address 48 is not a multiple of 32\n")
    assert "TASSIGN(t, 48);" in output.read_text()


def test_command_line_with_an_unknown_platform(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unit = tmp_path / "u.pto"
    unit.write_text(module(""))
    assert main([str(unit), "--platform", "a9", "-o", str(tmp_path / "o.cpp")]) == 1
    assert capsys.readouterr().err == f"error: {unit}: unknown platform 'a9'; one of a2a3, a5, a2a3sim, a5sim\n"


@pytest.mark.parametrize("name", ["a.b", "a-b", '"../../k"', '"k"'])
def test_functions_have_names_that_cpp_has(name: str) -> None:
    """Kernels' files are named after them, so no path can be one either."""
    text = f"module {{\n  func.func @{name}() {{\n    return\n  }}\n}}\n"
    message = f"k.pto:2:3: func.func @{name}: the name is not a C++ identifier; use letters, digits and _"
    with pytest.raises(PtoError) as raised:
        assemble(parse(text, "k.pto"), "a2a3sim")
    assert str(raised.value) == message
    with pytest.raises(PtoError) as raised:
        generate(parse(text, "k.pto"))
    assert str(raised.value) == message
