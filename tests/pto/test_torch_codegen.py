"""The text that torch_codegen writes, its names, control flow, errors, and cross-core groups in all split modes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from pypto_build.pto import Function, parse
from pypto_build.pto.ops import TABLE
from pypto_build.pto.torch import UnsupportedOperations, generate, torch_codegen
from pypto_build.pto.torch.lowering import find_lowering
from pypto_build.pto.torch.writer import PythonNames, function_names, sanitize
from tests.pto.samples import function, module, operation_for, tile
from tests.pto.torch_run import HEAD, Kernel, module_of, namespace, values, view

GROUP = Path(__file__).parents[2] / "examples/artifacts/_jit_gemm_silu_lanes/ptoas/gemm_silu.pto"

# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        ("x__y", "x_y"),
        ("0abc", "v_0abc"),
        ("for", "for_v"),
        ("a.b-c", "a_b_c"),
        ("q__ssa_v0", "q_ssa_v0"),
        ("", "v"),
        ("__", "v"),
    ],
)
def test_names_are_made_valid(hint: str, name: str) -> None:
    assert sanitize(hint) == name


def test_names_never_collide() -> None:
    names = PythonNames({"load"})
    assert [names.unique(n) for n in ("a", "a", "a_1", "a", "class", "class", "torch", "run", "load", "print")] == [
        "a", "a_1", "a_1_1", "a_2", "class_v", "class_v_1", "torch_1", "run_1", "load_1", "print_1",
    ]  # fmt: skip


def test_helpers_are_not_shadowed_by_values() -> None:
    k = Kernel()
    x, kind = values("f32", 16, 64), tile()
    k.load("%load", x, "f32", kind)
    k.tile("%Tile", kind)
    k.add(f"pto.tadd ins(%load, %load : {kind}, {kind}) outs(%Tile : {kind})")
    out = k.store("%Tile", kind, (16, 64), "f32")
    k.run()
    assert torch.equal(out, x + x)


def test_functions_keep_their_names_where_those_mean_nothing_else() -> None:
    names = function_names(["k", "run", "pointer", "pointer_1", "lambda"], {"pointer", "run", "torch"})
    assert names == {"k": "k", "run": "run", "pointer": "pointer_2", "pointer_1": "pointer_1", "lambda": "lambda_1"}


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("pointer", "pointer_1"),
        ("multiply", "multiply"),
        ("range", "range"),
        ("float", "float_1"),
        ("class", "class_1"),
    ],
)
def test_a_function_does_not_replace_a_helper(name: str, called: str) -> None:
    """`pointer` is called by every kernel with tensors, `float` by the helpers of this one, `multiply` by none."""
    k = Kernel()
    x, kind = values("f32", 16, 64), tile()
    k.load("%x", x, "f32", kind)
    k.tile("%y", kind)
    k.add(f"pto.tadd ins(%x, %x : {kind}, {kind}) outs(%y : {kind})")
    out = k.store("%y", kind, (16, 64), "f32")
    pointer = "!pto.ptr<f32>"
    body = f"  func.call @{name}(%p, %q) : ({pointer}, {pointer}) -> ()"
    text = module_of({name: k})[:-2] + function(body, f"%p: {pointer}, %q: {pointer}", "", "entry") + "}\n"
    generated = generate(parse(text, "t.pto"))
    assert generated.names == {name: called, "entry": "entry"}
    made: dict[str, Any] = {}
    exec(generated.text, made)
    for entered in ("entry", "run", called):
        out.zero_()
        made[entered](*k.tensors)
        assert torch.equal(out, x + x), entered


def test_members_with_the_name_of_a_helper_run_together() -> None:
    """Messages have their own name."""
    text = GROUP.read_text()
    member = re.search(r"@(\w+_aic)\b", text)
    assert member is not None
    generated = generate(parse(text.replace(member[0], "@_run_scheduler"), "t.pto"))
    assert generated.names["_run_scheduler"] == "_run_scheduler_1"
    assert '("_run_scheduler", _run_scheduler_1(' in generated.text


def test_a_value_called_like_a_yield_makes_no_generator() -> None:
    """A member of a scheduled group has to be one, whatever its values are called."""
    doubled = "  %yielded = arith.addi %x, %x : i32"
    both = function(doubled, "%x: i32", "vector", "a").replace("<vector>", "<vector>, dual_aiv_dispatch = true")
    calls = "".join(f"  func.call @{name}(%x) : (i32) -> ()\n" for name in "ab")
    text = both + function("", "%x: i32", "cube", "b") + function(calls, "%x: i32", "", "g")
    assert "    yield from ()\n" in torch_codegen(parse(f"module {{\n{text}}}\n", "t.pto"))
    assert namespace(f"module {{\n{text}}}\n")["run"](1) is None


# --- what is emitted ------------------------------------------------------------------------------------------------


def test_only_modules_and_functions_are_taken() -> None:
    with pytest.raises(TypeError, match=r"^torch_codegen expects Program or Function, got str$"):
        torch_codegen("x")


def test_all_unsupported_operations_are_named_at_once() -> None:
    tile_ = tile()
    text = module(
        "  %g = pto.declare_global -> !pto.tensor_view<16x16xf32>\n"
        f"  pto.tget_scale_addr ins(%a : {tile_}) outs(%a : {tile_})",
        f"%a: {tile_}",
    )
    with pytest.raises(UnsupportedOperations) as error:
        torch_codegen(parse(text, "t.pto"))
    assert str(error.value).startswith("Unsupported op 'declare_global', 'tget_scale_addr' in torch_codegen. t.pto:3:")
    assert [name for _, name, _ in error.value.operations] == ["declare_global", "tget_scale_addr"]


def test_operations_without_a_translation_are_these() -> None:
    missing = {name for name, d in TABLE.items() if find_lowering(operation_for(d, 0, full=False)) is None}
    kept = {n for n in missing if not n.startswith("pto.talloc")}
    assert kept == {
        "pto.declare_global", "pto.initialize_l2g2l_pipe", "pto.initialize_l2l_pipe", "pto.tget_scale_addr",
        "pto.tquant.mx",
    }  # fmt: skip


def test_a_function_alone_has_no_entry() -> None:
    parsed = parse(module("", "%x: i32"), "t.pto")
    function = next(parsed.functions())
    assert isinstance(function, Function)
    text = torch_codegen(function)
    assert text.endswith("def k(x):\n    pass\n")
    assert "def run" not in text


def test_empty_functions_and_loops_pass() -> None:
    body = "  %a = arith.constant 0 : index\n  %b = arith.constant 4 : index\n  %s = arith.constant 1 : index\n"
    text = torch_codegen(parse(module(body + "  scf.for %i = %a to %b step %s {\n  }"), "t.pto"))
    assert "    for i in range(4):  # t.pto:6\n        pass\n" in text


def test_places_of_lines() -> None:
    k = Kernel()
    k.load("%x", values("f32", 16, 64), "f32", tile())
    made = generate(parse(module(k.body, ", ".join(k.arguments)), "t.pto"))
    line = next(n for n, text in enumerate(made.text.splitlines(), 1) if "x = x_g  #" in text)
    assert made.lines[line].line == int(made.text.splitlines()[line - 1].rpartition(":")[2])


def test_loops_carry_values_all_at_once() -> None:
    body = HEAD + (
        "  %n = arith.constant 3 : index\n  %x = arith.constant 10 : i32\n  %y = arith.constant 20 : i32\n"
        "  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%p = %x, %q = %y) -> (i32, i32) {\n"
        "    scf.yield %q, %p : i32, i32\n  }\n"
        "  pto.store_scalar %r#0, %o[%c0] : !pto.ptr<i32>, i32\n  pto.store_scalar %r#1, %o[%c1] : !pto.ptr<i32>, i32"
    )
    out = torch.zeros(2, dtype=torch.int32)
    namespace(module(body, "%o: !pto.ptr<i32>"))["k"](out)
    assert out.tolist() == [20, 10]


def test_branches_and_while_loops() -> None:
    body = HEAD + (
        "  %n = arith.constant 5 : i32\n  %one = arith.constant 1 : i32\n"
        "  %r = scf.while (%v = %x) : (i32) -> i32 {\n    %c = arith.cmpi slt, %v, %n : i32\n"
        "    scf.condition(%c) %v : i32\n"
        "  } do {\n  ^bb0(%w: i32):\n    %m = arith.addi %w, %one : i32\n    scf.yield %m : i32\n  }\n"
        "  %big = arith.cmpi sgt, %x, %n : i32\n"
        "  %s = scf.if %big -> (i32) {\n    scf.yield %x : i32\n  } else {\n    scf.yield %one : i32\n  }\n"
        "  pto.store_scalar %r, %o[%c0] : !pto.ptr<i32>, i32\n  pto.store_scalar %s, %o[%c1] : !pto.ptr<i32>, i32"
    )
    made = namespace(module(body, "%o: !pto.ptr<i32>, %x: i32"))
    for x, expected in ((2, [5, 1]), (9, [9, 9])):
        out = torch.zeros(2, dtype=torch.int32)
        made["run"](out, x)
        assert out.tolist() == expected


def test_tiles_at_one_address_share_bytes() -> None:
    """A column read as a row: what PyPTO writes for a reshape."""
    x = values("f32", 32, 64)
    kind, column, row = tile(rows=32), tile(rows=32, cols=1, blayout="col_major"), tile(rows=1, cols=32)
    k = Kernel()
    k.add("%at = arith.constant 8192 : i64")
    k.load("%x", x, "f32", kind)
    k.tile("%t", kind)
    k.add(f"%s = pto.alloc_tile addr = %at : {column}")
    k.add(f"%r = pto.alloc_tile addr = %at : {row}")
    k.add(f"pto.trowmax ins(%x, %t : {kind}, {kind}) outs(%s : {column})")
    out = k.store("%r", row, (1, 32), "f32")
    k.run()
    assert torch.equal(out[0], x.amax(1))


def test_boxed_bytes_seen_transposed() -> None:
    """An NZ tile seen as ZN is its transpose: how a transposed operand reaches the cube core."""
    x = values("f16", 32, 64)
    kind = tile("mat", 32, 64, "f16")
    turned = tile("mat", 64, 32, "f16", blayout="row_major", slayout="col_major")
    k = Kernel("cube")
    k.add("%at = arith.constant 0 : i64")
    k.body += view("g", k.pointer(x, "f16"), 32, 64, "f16")
    k.add(f"%n = pto.alloc_tile addr = %at : {kind}")
    k.add(f"%t = pto.alloc_tile addr = %at : {turned}")
    k.add(f"pto.tload ins(%g : !pto.partition_tensor_view<32x64xf16>) outs(%n : {kind})")
    out = k.store("%t", turned, (64, 32), "f16")
    k.run()
    assert torch.equal(out, x.T)


def test_orders_and_hints_compute_nothing() -> None:
    body = "  pto.barrier <PIPE_ALL>\n  pto.fence.barrier_all\n  pto.set_ffts %p : !pto.ptr<i64>"
    text = torch_codegen(parse(module(body, "%p: !pto.ptr<i64>"), "t.pto"))
    assert text.endswith(
        "def k(p):\n    p = pointer(p, torch.int64)\n\n\n# Entry point\ndef run(p):\n    return k(p)\n"
    )


def test_windows_beyond_a_tensor_are_errors() -> None:
    k = Kernel()
    k.load("%x", torch.zeros(16, 64), "f32", tile())
    text = module(k.body, ", ".join(k.arguments))
    with pytest.raises(IndexError, match=r"covers elements 0 to 1023 of a tensor that has 512"):
        namespace(text)["run"](torch.zeros(8, 64))


def test_check_shapes_asserts_tensors() -> None:
    k = Kernel()
    k.load("%x", torch.zeros(16, 64), "f32", tile())
    made: dict[str, Any] = {}
    exec(torch_codegen(parse(module(k.body, ", ".join(k.arguments)), "t.pto"), check_shapes=True), made)
    with pytest.raises(AssertionError, match=r"^Expected a0 to be a Tensor$"):
        made["run"](3)
