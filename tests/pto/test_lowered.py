"""Operations between devices, blocks and cores, generators and counters: assembled, run, and compared with numpy.

One module, so that all of it costs one compilation.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pypto_build.pto import TABLE, PtoError, parse
from pypto_build.pto.assemble import assemble
from pypto_build.pto.checks import check_module
from pypto_build.pto.cpp.lowering import find_lowering, refuse
from pypto_build.pto.model import Operation
from tests.pto.harness import COMPILER, Library
from tests.pto.samples import module, tile
from tests.rows import every

LINE = "!pto.partition_tensor_view<128xf32>"
SIGNAL = "!pto.partition_tensor_view<4xi32>"
STAGE = tile(rows=1, cols=128)
I32 = tile(rows=4, cols=32, dtype="i32")
I32_VALID = tile(rows=4, cols=32, dtype="i32", v_row=4, v_col=30)  # type: ignore[arg-type]
U16 = tile(rows=8, cols=32, dtype="ui16", v_row=8, v_col=32)  # type: ignore[arg-type]
U8 = tile(rows=8, cols=32, dtype="ui8", v_row=8, v_col=32)  # type: ignore[arg-type]
COUNT = tile(rows=8, cols=256, dtype="ui32", v_row=8, v_col=256)  # type: ignore[arg-type]
INDEX = tile(rows=32, cols=1, dtype="ui8", blayout="col_major", v_row=8, v_col=1)  # type: ignore[arg-type]
SLOT = "!pto.tensor_view<16x16xf32>"

HEAD = """\
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c30 = arith.constant 30 : index
  %c32 = arith.constant 32 : index
  %c128 = arith.constant 128 : index
  %c256 = arith.constant 256 : index
  %a0 = arith.constant 0 : i64
  %a1 = arith.constant 16384 : i64
  %a2 = arith.constant 32768 : i64
"""


def part(name: str, pointer: str, extents: str, strides: str, type_: str) -> str:
    view = "!pto.tensor_view<" + "?x" * (extents.count(",") + 1) + type_.rpartition("x")[2]
    zeros = ", ".join(["%c0"] * (extents.count(",") + 1))
    return (
        f"  %{name}_v = pto.make_tensor_view {pointer}, shape = [{extents}], strides = [{strides}] : {view}\n"
        f"  %{name} = pto.partition_view %{name}_v, offsets = [{zeros}], sizes = [{extents}] : {view} -> {type_}\n"
    )


def function(name: str, args: str, body: str) -> str:
    return (
        f"  func.func @{name}({args}) attributes {{pto.kernel_kind = #pto.kernel_kind<vector>}} {{\n"
        f"{HEAD}{body}  return\n  }}\n"
    )


def transfer(name: str, operation: str) -> str:
    body = part("x", "%px", "%c128", "%c1", LINE) + part("y", "%py", "%c128", "%c1", LINE)
    body += f"  %stage = pto.alloc_tile addr = %a0 valid_row = %c1 valid_col = %c128 : {STAGE}\n{operation}"
    return function(name, "%px: !pto.ptr<f32>, %py: !pto.ptr<f32>", body)


PUT = f"(%y, %x, buf(%stage) : {LINE}, {LINE}, {STAGE})"
SESSION = "!pto.async_session"
ASYNC = (
    f"  %s = pto.build_async_session(%stage, %px : {STAGE}, !pto.ptr<f32>) -> {SESSION}\n"
    f"  %e = pto.tput_async(%y, %x, %s : {LINE}, {LINE}, {SESSION}) -> !pto.async_event\n"
    f"  %done = pto.wait_async_event(%e, %s : !pto.async_event, {SESSION}) -> i1\n"
    "  scf.if %done {\n    %v = arith.constant 7.0 : f32\n    pto.store_scalar %v, %py[%c1] : !pto.ptr<f32>, f32\n  }\n"
)
TEXT = "\n".join(
    [
        'module attributes {pto.target_arch = "a2a3"} {',
        transfer("put", f"  pto.comm.tput{PUT}\n"),
        transfer("add", f"  pto.comm.tput{PUT} {{atomicType = #pto<atomic_type atomic_add>}}\n"),
        transfer("get", f"  pto.comm.tget{PUT}\n"),
        transfer("later", ASYNC),
        function(
            "signals",
            "%ps: !pto.ptr<i32>, %po: !pto.ptr<i32>, %v: i32",
            part("s", "%ps", "%c4", "%c1", SIGNAL)
            + f"  pto.comm.tnotify(%s, %v : {SIGNAL}, i32) {{notifyOp = #pto<notify_op atomic_add>}}\n"
            f"  pto.comm.twait(%s, %v : {SIGNAL}, i32) {{cmp = #pto<wait_cmp ge>}}\n"
            f"  %t = pto.comm.ttest(%s, %v : {SIGNAL}, i32) {{cmp = #pto<wait_cmp eq>}} -> i1\n"
            "  %n = arith.extui %t : i1 to i32\n"
            "  pto.store_scalar %n, %po[%c0] : !pto.ptr<i32>, i32\n"
            "  pto.syncall() mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<aiv_only>\n",
        ),
        function(
            "random",
            "%po: !pto.ptr<i32>, %k0: i32, %k1: i32, %n0: i32, %n1: i32",
            part("o", "%po", "%c4, %c30", "%c30, %c1", "!pto.partition_tensor_view<4x30xi32>")
            + f"  %t = pto.alloc_tile addr = %a0 : {I32_VALID}\n"
            "  pto.trandom ins(%k0, %k1, %n0, %n1, %k0, %k1 : i32, i32, i32, i32, i32, i32) "
            f"outs(%t : {I32_VALID})\n"
            f"  pto.tstore ins(%t : {I32_VALID}) outs(%o : !pto.partition_tensor_view<4x30xi32>)\n",
        ),
        function(
            "bytes",
            "%px: !pto.ptr<ui16>, %po: !pto.ptr<ui8>, %pc: !pto.ptr<ui32>",
            part("x", "%px", "%c8, %c32", "%c32, %c1", "!pto.partition_tensor_view<8x32xui16>")
            + part("o", "%po", "%c8, %c32", "%c32, %c1", "!pto.partition_tensor_view<8x32xui8>")
            + part("c", "%pc", "%c8, %c256", "%c256, %c1", "!pto.partition_tensor_view<8x256xui32>")
            + f"  %tx = pto.alloc_tile addr = %a0 : {U16}\n  %to = pto.alloc_tile addr = %a1 : {U8}\n"
            f"  %tc = pto.alloc_tile addr = %a2 : {COUNT}\n"
            "  %a3 = arith.constant 8192 : i64\n"
            f"  %ti = pto.alloc_tile addr = %a3 : {INDEX}\n"
            f"  pto.tload ins(%x : !pto.partition_tensor_view<8x32xui16>) outs(%tx : {U16})\n"
            f"  pto.tpack ins(%tx : {U16}) outs(%to : {U8})\n"
            f"  pto.thistogram ins(%tx, %ti : {U16}, {INDEX}) outs(%tc : {COUNT}) {{byte = 1 : i32}}\n"
            f"  pto.tstore ins(%to : {U8}) outs(%o : !pto.partition_tensor_view<8x32xui8>)\n"
            f"  pto.tstore ins(%tc : {COUNT}) outs(%c : !pto.partition_tensor_view<8x256xui32>)\n",
        ),
        function(
            "copy",
            "%from: memref<4x32xi32, #pto.address_space<gm>>, %to: memref<4x32xi32, #pto.address_space<gm>>",
            f"  %t = pto.alloc_tile addr = %a0 valid_row = %c4 valid_col = %c32 : {I32}\n"
            f"  pto.tload ins(%from : memref<4x32xi32, #pto.address_space<gm>>) outs(%t : {I32})\n"
            f"  pto.tprint ins(%t : {I32})\n"
            f"  pto.tstore ins(%t : {I32}) outs(%to : memref<4x32xi32, #pto.address_space<gm>>)\n",
        ),
        "}",
    ]
)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    yield Library(parse(TEXT), tmp_path_factory.mktemp("kernels"))


def test_the_module_is_right() -> None:
    assert [str(problem) for problem in check_module(parse(TEXT), "a5")] == []


@pytest.mark.parametrize(("name", "expected"), [("put", 0), ("add", 1), ("get", 0), ("later", 0)])
def test_transfers(kernels: Library, name: str, expected: int) -> None:
    x, y = np.arange(128, dtype=np.float32), np.full(128, 0.5, np.float32)
    target = x + expected * y
    if name == "later":
        target[1] = 7.0
    kernels.run(name, [x, y])
    np.testing.assert_array_equal(y, target)


@pytest.mark.parametrize(("before", "equal"), [(0, 1), (2, 0)])
def test_signals(kernels: Library, before: int, equal: int) -> None:
    signal, out = np.full(4, before, np.int32), np.full(1, -1, np.int32)
    kernels.run("signals", [signal, out, 3])
    assert signal.tolist() == [before + 3] * 4
    assert out.tolist() == [equal]


def philox(counter: list[int], key: tuple[int, int]) -> list[int]:
    """Ten rounds of Philox 4x32, as its authors define it."""
    mask, words = 2**32 - 1, list(counter)
    for number in range(10):
        k0, k1 = (key[0] + number * 0x9E3779B9) & mask, (key[1] + number * 0xBB67AE85) & mask
        a, b = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [(b >> 32) ^ words[1] ^ k0, b & mask, (a >> 32) ^ words[3] ^ k1, a & mask]
    return words


def test_random(kernels: Library) -> None:
    key, low = (12345, 678), (2**32 - 2, 9)
    out = np.zeros(120, np.uint32)
    kernels.run("random", [out, *key, *low])
    start = low[0] | low[1] << 32 | key[0] << 64 | key[1] << 96
    expected = []
    for row in range(4):  # at most 64 columns have the first word of a block each; a row counts on by 32 / 4
        blocks = range(start + 8 * row, start + 8 * row + 30)
        expected += [philox([block >> shift & 2**32 - 1 for shift in (0, 32, 64, 96)], key)[0] for block in blocks]
    assert out.tolist() == expected


def test_packing_and_counting_bytes(kernels: Library) -> None:
    x = np.random.default_rng(3).integers(0, 2**16, (8, 32), np.uint16)
    low, counts = np.zeros((8, 32), np.uint8), np.zeros((8, 256), np.uint32)
    kernels.run("bytes", [x, low, counts])
    np.testing.assert_array_equal(low, (x & 255).astype(np.uint8))
    expected = np.array([np.cumsum(np.bincount(row >> 8, minlength=256)) for row in x])
    np.testing.assert_array_equal(counts, expected)


def test_arguments_that_are_memrefs(kernels: Library) -> None:
    x, y = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    kernels.run("copy", [x, y])
    np.testing.assert_array_equal(x, y)


def test_slots_seen_through_views(tmp_path: Path) -> None:
    """The producer takes a slot and hands it over, the consumer takes it and hands it back."""
    body = f"""\
  %b = arith.constant 0 : i32
  pto.aic_initialize_pipe {{dir_mask = 1, slot_size = 1024}} (gm_slot_buffer = %gm : !pto.ptr<f32>, \
c2v_consumer_buf = %b : i32, v2c_consumer_buf = %b : i32)
  %slot = pto.talloc_to_aiv {{split = 0}} -> {SLOT}
  pto.tpush_to_aiv(%slot : {SLOT}) {{split = 0}}
"""
    text = assemble(parse(module(body, "%gm: !pto.ptr<f32>", "cube")), "a2a3sim").text
    declared = (
        "GlobalTensor<float, pto::Shape<1, 1, 1, 16, 16>, pto::Stride<256, 256, 256, 16, 1>, pto::Layout::ND> slot("
    )
    assert declared in text
    assert "TALLOC<decltype(pipe0), decltype(slot), TileSplitAxis::TILE_NO_SPLIT>(pipe0, slot);" in text
    assert "TPUSH<decltype(pipe0), decltype(slot), TileSplitAxis::TILE_NO_SPLIT>(pipe0, slot);" in text
    body = body.replace("aic_init", "aiv_init").replace("talloc_to_aiv", "tpop_from_aic")
    body = body.replace("tpush_to_aiv", "tfree_from_aic")
    text = assemble(parse(module(body, "%gm: !pto.ptr<f32>")), "a2a3sim").text
    assert "TPOP<decltype(pipe0), decltype(slot), TileSplitAxis::TILE_NO_SPLIT>(pipe0, slot);" in text
    assert "TFREE<decltype(pipe0), decltype(slot), TileSplitAxis::TILE_NO_SPLIT>(pipe0, slot);" in text


@every("name", TABLE)
def test_every_operation_is_lowered_or_says_why_not(name: str) -> None:
    op = Operation(name)
    lowering = find_lowering(op)
    assert lowering is not None
    assert (lowering is refuse) == bool(TABLE[name].refused)


def test_what_is_refused() -> None:
    assert sorted(name for name, row in TABLE.items() if row.refused) == [
        "pto.tgemv.mx",
        "pto.tgemv.mx.acc",
        "pto.tgemv.mx.bias",
        "pto.tget_scale_addr",
        "pto.tile_buf_addr",
        "pto.tmatmul.mx",
        "pto.tmatmul.mx.acc",
        "pto.tmatmul.mx.bias",
        "pto.tquant.mx",
    ]
    assert all(len(row.refused) > 20 for row in TABLE.values() if row.refused)


def test_refusal_names_the_place() -> None:
    body = f"  %t = pto.alloc_tile : {I32_VALID}\n  %p = pto.tile_buf_addr %t : {I32_VALID} -> !pto.ptr<i32>"
    with pytest.raises(PtoError) as raised:
        assemble(parse(module(body), "k.pto"), "a2a3sim")
    assert str(raised.value) == (
        "k.pto:4:3: pto.tile_buf_addr: is a form that only ptoas itself makes between its passes; write the operation "
        "on the tile"
    )
