"""Tiles, arrays, pointers and sections as PyTorch on every element type: what they hold is what plain tensors say."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from pypto_build.pto import parse
from pypto_build.pto.checks.elements import element_types
from pypto_build.pto.torch import UnsupportedOperations, torch_codegen
from tests.pto.samples import function, module, tile
from tests.pto.torch_case import random
from tests.pto.torch_groups import cube_to_vector, vector_to_cube
from tests.pto.torch_run import DTYPES, HEAD, Kernel, namespace, view
from tests.rows import every

R, C = 16, 64
TYPES = sorted(element_types("pto.tload"))
PLAIN = [t for t in TYPES if not t.startswith("f8")]


def loaded(dtype: str, type_: str, shape: tuple[int, int] = (R, C)) -> tuple[Kernel, torch.Tensor]:
    """A kernel that has loaded %x."""
    k, x = Kernel(arch="a5"), random("any", dtype, shape, 1)
    k.load("%x", x, dtype, type_)
    return k, x.clone()


def bits(tensor: torch.Tensor) -> list[int]:
    return tensor.contiguous().view(torch.uint8).reshape(-1).tolist()


@every("dtype", PLAIN)
def test_elements(dtype: str) -> None:
    """An element goes through an array of numbers to another place."""
    kind = tile(dtype=dtype)
    k, x = loaded(dtype, kind)
    for line in (
        "%p = arith.constant 70 : index", "%q = arith.constant 1 : index",
        f"%v = pto.tgetval ins(%x, %p : {kind}, index) outs : {dtype}",
        f"%n = pto.declare_local_array -> !pto.local_array<2x3x{dtype}>",
        f"pto.local_array_set %n[%q, %q], %v : !pto.local_array<2x3x{dtype}>, {dtype}",
        f"%w = pto.local_array_get %n[%q, %q] : !pto.local_array<2x3x{dtype}> -> {dtype}",
        f"%z = pto.local_array_get %n[%q, %c0] : !pto.local_array<2x3x{dtype}> -> {dtype}",
        f"pto.tsetval ins(%c0, %w : index, {dtype}) outs(%x : {kind})",
        f"pto.tsetval ins(%q, %z : index, {dtype}) outs(%x : {kind})",
    ):  # fmt: skip
        k.add(line)
    out = k.store("%x", kind, (R, C), dtype)
    k.run()
    x[0, 0], x[0, 1] = x[1, 6], 0
    assert bits(out) == bits(x)


@every("dtype", TYPES)
@every("name", ("pto.treshape", "pto.bitcast"))
def test_other_shapes_and_types_of_the_same_bytes(name: str, dtype: str) -> None:
    kind, other = tile(dtype=dtype), f"ui{8 * DTYPES[dtype].itemsize}"
    reshaped = name == "pto.treshape"
    made, shape = (tile(rows=32, cols=32, dtype=dtype), (32, 32)) if reshaped else (tile(dtype=other), (R, C))
    k, x = loaded(dtype, kind)
    k.add(f"%y = {name} %x : {kind} -> {made}")
    out = k.store("%y", made, shape, dtype if reshaped else other)
    k.run()
    assert bits(out) == bits(x)


@every("dtype", TYPES)
@every("name", ("pto.subview", "pto.subset"))
def test_windows(name: str, dtype: str) -> None:
    kind = tile(dtype=dtype)
    k, x = loaded(dtype, kind)
    k.add("%eight = arith.constant 8 : index")
    k.add("%sixteen = arith.constant 16 : index")
    types = f"{kind} -> {tile(dtype=dtype, v_row='8', v_col='32')}" if name == "pto.subview" else kind
    window = tile(dtype=dtype, v_row="8", v_col="32") if name == "pto.subview" else kind
    k.add(f"%w = {name} %x[%eight, %sixteen] sizes [8, 32] : {types}")
    out = k.store("%w", window, (8, 32), dtype)
    k.run()
    assert bits(out) == bits(x[8:, 16:48])


@every("dtype", TYPES)
def test_tiles_that_are_placed(dtype: str) -> None:
    """A tile at the address of another one sees its bytes."""
    kind, size = tile(dtype=dtype), R * C * DTYPES[dtype].itemsize
    k, x = loaded(dtype, kind)
    for line in (
        f"%at = arith.constant {4 * size} : i64", f"%a = pto.alloc_tile addr = %at : {kind}",
        f"pto.tmov ins(%x : {kind}) outs(%a : {kind})", f"%d = pto.declare_tile -> {kind}",
        f"%b = pto.tassign %d, %at : {kind} -> {kind}",
    ):  # fmt: skip
        k.add(line)
    out = k.store("%b", kind, (R, C), dtype)
    k.run()
    assert bits(out) == bits(x)


@every("dtype", TYPES)
def test_slots_of_several_tiles(dtype: str) -> None:
    kind, slots = tile(dtype=dtype), f"!pto.multi_tile_buf<vec, 16x64x{dtype}, count=3>"
    k, x = loaded(dtype, kind)
    for line in (
        "%two = arith.constant 2 : index", f"%m = pto.alloc_multi_tile : {slots}",
        f"%s = pto.multi_tile_get %m[%two] : {slots} -> {kind}", f"%t = pto.multi_tile_get %m[%c1] : {slots} -> {kind}",
        f"pto.tmov ins(%x : {kind}) outs(%s : {kind})", f"%u = pto.multi_tile_get %m[%two] : {slots} -> {kind}",
    ):  # fmt: skip
        k.add(line)
    out, empty = k.store("%u", kind, (R, C), dtype), k.store("%t", kind, (R, C), dtype)
    k.run()
    assert bits(out) == bits(x)
    assert not any(bits(empty))


@every("dtype", TYPES)
def test_what_is_valid_can_change(dtype: str) -> None:
    """Only what is valid is stored; the extents can be asked for."""
    kind = tile(dtype=dtype, v_row="?", v_col="?")
    k, x = loaded(dtype, kind)
    lengths = k.pointer(torch.zeros(2, dtype=torch.int64), "i64")
    for line in (
        "%rows = arith.constant 7 : index", "%cols = arith.constant 33 : index",
        f"pto.set_validshape %x, %rows, %cols : {kind}", f"%a, %b = pto.get_validshape %x : {kind}",
        "%i = arith.index_cast %a : index to i64", "%j = arith.index_cast %b : index to i64",
        f"pto.store_scalar %i, {lengths}[%c0] : !pto.ptr<i64>, i64",
        f"pto.store_scalar %j, {lengths}[%c1] : !pto.ptr<i64>, i64",
    ):  # fmt: skip
        k.add(line)
    out = k.store("%x", kind, (R, C), dtype)
    k.run()
    assert k.tensors[1].tolist() == [7, 33]
    expected = torch.zeros_like(x.view(torch.uint8)).view(DTYPES[dtype]).clone()
    expected[:7, :33] = x[:7, :33]
    assert bits(out) == bits(expected)


@every("name", ("castptr", "inttoptr", "ptrtoint"))
@every("dtype", TYPES)
def test_pointers_to_other_elements(name: str, dtype: str) -> None:
    """The same place, seen as bytes."""
    size = DTYPES[dtype].itemsize
    body = HEAD + (
        f"  %b = pto.addptr %a, %c1 : !pto.ptr<{dtype}> -> !pto.ptr<{dtype}>\n"
        f"  %p = pto.{name} %b : !pto.ptr<{dtype}> -> !pto.ptr<i8>\n"
        "  %v = pto.load_scalar %p[%c1] : !pto.ptr<i8> -> i8\n"
        "  pto.store_scalar %v, %p[%c0] : !pto.ptr<i8>, i8"
    )
    a = torch.arange(4 * size, dtype=torch.uint8).view(DTYPES[dtype])
    namespace(module(body, f"%a: !pto.ptr<{dtype}>"))["run"](a)
    expected = list(range(4 * size))
    expected[size] = expected[size + 1]
    assert bits(a) == expected


@every("split", (0, 1, 2))
@every("direction", (cube_to_vector, vector_to_cube))
@every("dtype", sorted(element_types("pto.tpush_to_aiv")))
def test_pipes(dtype: str, direction: Any, split: int) -> None:
    """Tiles of every type, whole and in halves, in both directions, to pipes that are initialized for them."""
    text = direction(split).replace("f32", dtype).replace("4096", str(R * C * DTYPES[dtype].itemsize))
    text = text.replace("pto.tadd ins(%p, %p : ", "pto.tmov ins(%p : ", 1)
    if direction is cube_to_vector:
        part = text.partition("pto.tmov ins(%p : ")[2].partition(", !pto")[0]
        text = text.replace(f"pto.tmov ins(%p : {part}, {part})", f"pto.tmov ins(%p : {part})")
    a = random("any", dtype, (R, C), 1)
    b = torch.zeros(R, C, dtype=torch.uint8).to(DTYPES[dtype])
    namespace(text)["run"](a, b)
    assert bits(a) == bits(b)


@every("dtype", TYPES)
def test_popped_tiles_lie_in_the_reserved_buffer(dtype: str) -> None:
    """One slot after another, from the address on that both functions know by the buffer's name."""
    size, mat, vec = R * C * DTYPES[dtype].itemsize, tile("mat", R, C, dtype), tile(dtype=dtype)
    part, args = f"!pto.partition_tensor_view<{R}x{C}x{dtype}>", f"%a: !pto.ptr<{dtype}>, %b: !pto.ptr<{dtype}>"
    pipe = f"{{dir_mask = 1, slot_size = {size}, slot_num = 2}}"
    cube = HEAD + view("x", "%a", R, C, dtype)
    cube += '  %q = pto.import_reserved_buffer {name = "q", peer_func = @g_aiv} -> i32\n'
    cube += f"  pto.aic_initialize_pipe {pipe} (c2v_consumer_buf = %q : i32)\n  %t = pto.alloc_tile : {mat}\n"
    cube += f"  pto.tload ins(%x : {part}) outs(%t : {mat})\n" + f"  pto.tpush_to_aiv(%t : {mat}) {{split = 0}}\n" * 2
    vector = HEAD + view("y", "%b", R, C, dtype) + f"  %at = arith.constant {8192 + size} : i64\n"
    vector += f'  %q = pto.reserve_buffer {{name = "q", size = {2 * size}, location = #pto.address_space<vec>, '
    vector += f"auto = false, base = 8192}} -> i32\n  pto.aiv_initialize_pipe {pipe} (c2v_consumer_buf = %q : i32)\n"
    vector += "".join(f"  %p{n} = pto.tpop_from_aic {{split = 0}} -> {vec}\n" for n in range(2))
    vector += f"  %s = pto.alloc_tile addr = %at : {vec}\n  pto.tstore ins(%s : {vec}) outs(%y : {part})\n"
    text = f"module {{\n{function(cube, args, 'cube', 'g_aic')}{function(vector, args, 'vector', 'g_aiv')}}}\n"
    a = random("any", dtype, (R, C), 1)
    b = torch.zeros(R, C, dtype=torch.uint8).to(DTYPES[dtype])
    namespace(text)["run"](a, b)
    assert bits(a) == bits(b)


def test_pipes_as_values_are_refused() -> None:
    """They are what ptoas makes of the others."""
    kind = tile()
    body = f"  %t = pto.alloc_tile : {kind}\n  pto.tpush(%t, %p : {kind}, !pto.pipe) {{split = 0}}\n"
    body += f"  pto.tpop(%t, %p : {kind}, !pto.pipe) {{split = 0}}\n  pto.tfree(%p : !pto.pipe) {{split = 0}}"
    with pytest.raises(UnsupportedOperations) as error:
        torch_codegen(parse(module(body, "%p: !pto.pipe"), "t.pto"))
    assert [(name, why) for _, name, why in error.value.operations] == [
        (name, "with the pipe as a value")
        for name in ("tpush", "tpop")  # "tfree" has nothing to do
    ]


def test_memory_without_a_shape_is_refused() -> None:
    buffer = "memref<?xf32, #pto.address_space<vec>>"
    with pytest.raises(UnsupportedOperations, match=re.escape(f"memref.alloc no tile of type {buffer}")):
        torch_codegen(parse(module(f"  %m = memref.alloc() : {buffer}"), "t.pto"))


def test_where_a_tile_lies() -> None:
    body = HEAD + (
        f"  %at = arith.constant 8192 : i64\n  %y = pto.alloc_tile addr = %at : {tile()}\n"
        f"  %a = pto.tile_buf_addr %y : {tile()} -> i64\n  pto.store_scalar %a, %o[%c0] : !pto.ptr<i64>, i64"
    )
    out = torch.zeros(1, dtype=torch.int64)
    namespace(module(body, "%o: !pto.ptr<i64>"))["run"](out)
    assert out.tolist() == [8192]


def test_sections_are_for_one_core() -> None:
    """In a function for both cores, every core runs its own section and the code around both."""
    number = "    %n{k} = arith.constant {k} : i32\n    pto.store_scalar %n{k}, %o[%c{at}] : !pto.ptr<i32>, i32\n"
    for kind, expected in (("cube", [1, 0]), ("vector", [0, 2])):
        body = HEAD + "  pto.section.cube {\n" + number.format(k=1, at=0) + "  }\n"
        body += "  pto.section.vector {\n" + number.format(k=2, at=1) + "  }"
        out = torch.zeros(2, dtype=torch.int32)
        namespace(module(body, "%o: !pto.ptr<i32>", kind))["run"](out)
        assert out.tolist() == expected


def test_calls_return_what_they_return() -> None:
    """Both spellings of calls and returns."""
    text = "module {\n  func.func private @twice(%x: i32) -> i32 {\n"
    text += "    %r = arith.addi %x, %x : i32\n    func.return %r : i32\n  }\n"
    text += "  func.func private @next(%x: i32) -> i32 {\n    %i = arith.constant 1 : i32\n"
    text += "    %r = arith.addi %x, %i : i32\n    return %r : i32\n  }\n"
    body = HEAD + "  %a = func.call @twice(%x) : (i32) -> i32\n  %b = call @next(%a) : (i32) -> i32\n"
    body += "  pto.store_scalar %b, %o[%c0] : !pto.ptr<i32>, i32"
    text += function(body, "%o: !pto.ptr<i32>, %x: i32") + "}\n"
    out = torch.zeros(1, dtype=torch.int32)
    namespace(text)["k"](out, 5)
    assert out.tolist() == [11]


def test_the_core_says_which_it_is() -> None:
    """One vector core runs one block."""
    body = HEAD
    names = ("pto.get_block_idx", "pto.get_block_num", "pto.get_subblock_idx", "pto.get_subblock_num")
    for at, name in enumerate(names):
        body += f"  %i{at} = arith.constant {at} : index\n  %v{at} = {name} -> i64\n"
        body += f"  pto.store_scalar %v{at}, %o[%i{at}] : !pto.ptr<i64>, i64\n"
    made, out = namespace(module(body, "%o: !pto.ptr<i64>")), torch.full((4,), -1)
    made["run"](out)
    assert out.tolist() == [0, 1, 0, 1]
    made["_block"][:] = [3, 8]
    made["run"](out)
    assert out.tolist() == [3, 8, 0, 1]


def test_arrays_of_events_and_extents_of_views() -> None:
    body = HEAD + (
        "  %e = pto.declare_eventid_array -> !pto.eventid_array<4>\n  %five = arith.constant 5 : index\n"
        "  pto.eventid_array_set %e[%c1], %five : !pto.eventid_array<4>\n"
        "  %v = pto.eventid_array_get %e[%c1] : !pto.eventid_array<4>\n"
        "  %w = pto.make_tensor_view %o, shape = [%v, %c1], strides = [%c1, %c1] : !pto.tensor_view<?x?xi64>\n"
        "  %d = pto.get_tensor_view_dim %w, %c0 : !pto.tensor_view<?x?xi64> -> index\n"
        "  %n = arith.index_cast %d : index to i64\n  pto.store_scalar %n, %o[%c0] : !pto.ptr<i64>, i64"
    )
    out = torch.zeros(5, dtype=torch.int64)
    namespace(module(body, "%o: !pto.ptr<i64>"))["run"](out)
    assert out.tolist() == [5, 0, 0, 0, 0]


def test_a_kernel_that_ends_itself() -> None:
    run = namespace(module("  pto.trap", ""))["run"]
    with pytest.raises(RuntimeError, match=r"^the kernel ended itself \(pto\.trap\)$"):
        run()
