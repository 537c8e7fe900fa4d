"""Tiles that are plain tensors in the generated text, and tiles that are views of a memory.

Also views of tensors in global memory, and single elements. `Kernel.run` compares both forms bit by bit.
"""

from __future__ import annotations

import pytest
import torch

from pypto_build.pto import parse
from pypto_build.pto.torch import generate, torch_codegen
from tests.pto.samples import module, tile
from tests.pto.torch_run import HEAD, Kernel, namespace, values

KIND, COLUMN, ROW = tile(rows=32), tile(rows=32, cols=1, blayout="col_major"), tile(rows=1, cols=32)
PART = "!pto.partition_tensor_view<32x64xf32>"


def text_of(k: Kernel, *, in_memory: bool = False) -> str:
    made = generate(parse(module(k.body, ", ".join(k.arguments)), "t.pto"), in_memory=in_memory)
    return made.text[made.text.index("def k(") :]


def at(k: Kernel, name: str, type_: str, address: int, more: str = "") -> None:
    """A tile at an address."""
    k.add(f"{name}_at = arith.constant {address} : i64")
    k.add(f"{name} = pto.alloc_tile addr = {name}_at{more} : {type_}")


def loaded(k: Kernel, name: str, tensor: torch.Tensor, address: int) -> None:
    """A 32 x 64 tile at an address, loaded."""
    pointer = k.pointer(tensor, "f32")
    k.add(f"{name}_r = arith.constant 32 : index")
    k.add(f"{name}_c = arith.constant 64 : index")
    k.add(f"{name}_v = pto.make_tensor_view {pointer}, shape = [{name}_r, {name}_c], strides = [{name}_c, %c1] "
          ": !pto.tensor_view<?x?xf32>")  # fmt: skip
    k.add(f"{name}_g = pto.partition_view {name}_v, offsets = [%c0, %c0], sizes = [{name}_r, {name}_c] "
          f": !pto.tensor_view<?x?xf32> -> {PART}")  # fmt: skip
    at(k, name, KIND, address)
    k.add(f"pto.tload ins({name}_g : {PART}) outs({name} : {KIND})")


def test_memory_that_is_used_again_needs_none() -> None:
    """Three tiles at one address, each written before it is read."""
    k, x = Kernel(), values("f32", 32, 64)
    loaded(k, "%x", x, 0)
    at(k, "%s", COLUMN, 0)
    at(k, "%r", ROW, 0)
    at(k, "%t", KIND, 32768)
    k.add(f"pto.trowmax ins(%x, %t : {KIND}, {KIND}) outs(%s : {COLUMN})")
    out = k.store("%r", ROW, (1, 32), "f32")
    text = text_of(k)
    assert "Memory(" not in text
    assert "    s = x.amax(dim=1, keepdim=True)" in text
    assert "r_o.copy_(s.T)" in text
    assert text_of(k, in_memory=True).count("Memory(") == 1
    k.run()
    assert torch.equal(out[0], x.amax(1))


def test_tiles_that_overlap_in_part_stay_in_memory() -> None:
    """A tile that starts in the middle of another one sees its second half."""
    k, x = Kernel(), values("f32", 32, 64)
    loaded(k, "%x", x, 0)
    half = tile(rows=16)
    at(k, "%h", half, 16 * 64 * 4)
    out = k.store("%h", half, (16, 64), "f32")
    text = text_of(k)
    assert 'vec = Memory("vec", 8192)' in text
    k.run()
    assert torch.equal(out, x[16:])


def test_a_tile_that_a_loop_carries_is_a_variable() -> None:
    k, x = Kernel(), values("f32", 32, 64)
    loaded(k, "%x", x, 0)
    at(k, "%s", KIND, 16384)
    k.add("%zero = arith.constant 0.0 : f32")
    k.add("%n = arith.constant 3 : index")
    k.add(f"pto.texpands ins(%zero : f32) outs(%s : {KIND})")
    k.add("scf.for %i = %c0 to %n step %c1 {")
    k.add(f"  pto.tadd ins(%s, %x : {KIND}, {KIND}) outs(%s : {KIND})")
    k.add("}")
    out = k.store("%s", KIND, (32, 64), "f32")
    assert "        s = s + x" in text_of(k)
    k.run()
    assert torch.equal(out, x + x + x)


def test_what_may_be_read_before_it_is_written_is_zero() -> None:
    k, x = Kernel(), values("f32", 32, 64)
    loaded(k, "%x", x, 0)
    at(k, "%s", KIND, 16384)
    k.add("%n = arith.constant 2 : index")
    k.add("scf.for %i = %c0 to %n step %c1 {")
    k.add(f"  pto.tadd ins(%s, %x : {KIND}, {KIND}) outs(%s : {KIND})")
    k.add("}")
    out = k.store("%s", KIND, (32, 64), "f32")
    assert "    s = torch.zeros(32, 64, dtype=torch.float32)" in text_of(k)
    k.run()
    assert torch.equal(out, x + x)


def test_a_loaded_tile_is_copied_where_its_tensor_may_change() -> None:
    k, x = Kernel(), values("f32", 32, 64)
    loaded(k, "%x", x, 0)
    at(k, "%s", KIND, 16384)
    assert "    x = x_g  #" in text_of(k)
    k.add(f"pto.tadd ins(%x, %x : {KIND}, {KIND}) outs(%s : {KIND})")
    k.add(f"pto.tstore ins(%s : {KIND}) outs(%x_g : {PART})")
    assert "    x = x_g  #" in text_of(k)
    out = k.store("%x", KIND, (32, 64), "f32")
    assert "    x = x_g.clone()  #" in text_of(k)
    before = x.clone()
    k.run()
    assert torch.equal(out, before)
    assert torch.equal(x, before * 2)


def test_parts_whose_extents_change_from_round_to_round() -> None:
    """Rounds load 10 rows more than the last; after the loop, the last round's rows are stored."""
    k, x = Kernel(), values("f32", 32, 64)
    out = torch.zeros(32, 64)
    source, target = k.pointer(x, "f32"), k.pointer(out, "f32")
    for line in (
        "%r = arith.constant 32 : index", "%c = arith.constant 64 : index", "%n = arith.constant 31 : index",
        "%ten = arith.constant 10 : index", "%a = arith.constant 0 : i64",
        f"%v = pto.make_tensor_view {source}, shape = [%r, %c], strides = [%c, %c1] : !pto.tensor_view<?x?xf32>",
        f"%w = pto.make_tensor_view {target}, shape = [%r, %c], strides = [%c, %c1] : !pto.tensor_view<?x?xf32>",
        "scf.for %i = %ten to %n step %ten {",
        f"  %t = pto.alloc_tile addr = %a valid_row = %i valid_col = %c : {KIND}",
        "  %p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%i, %c] "
        ": !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<?x64xf32>",
        "  %q = pto.partition_view %w, offsets = [%c0, %c0], sizes = [%i, %c] "
        ": !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<?x64xf32>",
        f"  pto.tload ins(%p : !pto.partition_tensor_view<?x64xf32>) outs(%t : {KIND})",
        f"  pto.tadd ins(%t, %t : {KIND}, {KIND}) outs(%t : {KIND})",
        f"  pto.tstore ins(%t : {KIND}) outs(%q : !pto.partition_tensor_view<?x64xf32>)", "}",
    ):  # fmt: skip
        k.add(line)
    assert "Memory(" not in text_of(k)
    k.run()
    assert torch.equal(out, torch.nn.functional.pad(2 * x[:30], (0, 0, 0, 2)))


def test_elements_are_read_and_written_in_place() -> None:
    k, x = Kernel(), values("f32", 32, 64)
    loaded(k, "%x", x, 0)
    k.add("%e = arith.constant 67 : index")
    k.add(f"%v = pto.tgetval ins(%x, %e : {KIND}, index) outs : f32")
    k.add(f"pto.tsetval ins(%c0, %v : index, f32) outs(%x : {KIND})")
    out = k.store("%x", KIND, (32, 64), "f32")
    k.run()
    expected = x.clone()
    expected[0, 0] = x[1, 3]
    assert torch.equal(out, expected)


@pytest.mark.parametrize("layout", ["nd", "dn"])
def test_strided_views(layout: str) -> None:
    """Every second column of rows that lie 256 elements apart, from an element on."""
    x, kind = values("f32", 16, 256), tile(rows=16, cols=32)
    k = Kernel()
    pointer = k.pointer(x, "f32")
    for name, number in (("r", 16), ("c", 32), ("s", 256), ("two", 2), ("off", 64)):
        k.add(f"%{name} = arith.constant {number} : index")
    k.add(f"%p = pto.addptr {pointer}, %off : !pto.ptr<f32> -> !pto.ptr<f32>")
    k.add(f"%v = pto.make_tensor_view %p, shape = [%r, %c], strides = [%s, %two] {{layout = #pto.layout<{layout}>}} "
          ": !pto.tensor_view<?x?xf32>")  # fmt: skip
    k.add("%g = pto.partition_view %v, offsets = [%c0, %c1], sizes = [%r, %c] "
          ": !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<16x32xf32>")  # fmt: skip
    k.tile("%x", kind)
    k.add(f"pto.tload ins(%g : !pto.partition_tensor_view<16x32xf32>) outs(%x : {kind})")
    out = k.store("%x", kind, (16, 32), "f32")
    k.run()
    assert torch.equal(out, x[:, 66:130:2])


def test_windows_of_tiles_and_reinterpreted_tiles_share_bytes() -> None:
    """A window of a tile is written through, and the whole is read as another shape."""
    x, half, flat = values("f32", 32, 64), tile(rows=32, cols=64), tile(rows=16, cols=128)
    k = Kernel()
    loaded(k, "%x", x, 0)
    k.add("%one = arith.constant 1.0 : f32")
    k.add("%eight = arith.constant 8 : index")
    k.add(f"%w = pto.subview %x[%eight, %c0] sizes [8, 64] : {half} -> {tile(rows=32, cols=64, v_row='8')}")
    k.add(f"pto.texpands ins(%one : f32) outs(%w : {tile(rows=32, cols=64, v_row='8')})")
    k.add(f"%f = pto.treshape %x : {half} -> {flat}")
    out = k.store("%f", flat, (16, 128), "f32")
    k.run()
    expected = x.clone()
    expected[8:16] = 1
    assert torch.equal(out, expected.reshape(16, 128))


def test_parameters_of_the_entry_are_those_of_the_function() -> None:
    text = torch_codegen(parse(module("", "%class: i32, %class_v: i32, %x__y: i32"), "t.pto"))
    assert "def k(class_v, class_v_1, x_y):\n" in text
    assert text.endswith("def run(class_v, class_v_1, x_y):\n    return k(class_v, class_v_1, x_y)\n")


def test_a_function_for_no_core_is_the_entry() -> None:
    kernel = "  func.func @k(%o: !pto.ptr<i32>) attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {\n"
    kernel += (
        HEAD + "  %n = arith.constant 7 : i32\n  pto.store_scalar %n, %o[%c1] : !pto.ptr<i32>, i32\n  return\n  }\n"
    )
    main = "  func.func @main(%o: !pto.ptr<i32>) {\n    call @k(%o) : (!pto.ptr<i32>) -> ()\n    return\n  }\n"
    text = f"module {{\n{main}{kernel}}}\n"
    assert "return main(o)" in torch_codegen(parse(text, "t.pto"))
    out = torch.zeros(2, dtype=torch.int32)
    namespace(text)["run"](out)
    assert out.tolist() == [0, 7]
