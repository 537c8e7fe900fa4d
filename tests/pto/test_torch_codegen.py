"""The text that torch_codegen writes, its names, control flow, errors, and cross-core groups in all split modes."""

from __future__ import annotations

import ast
import itertools
from typing import Any

import pytest
import torch

from pypto_build.pto import Function, parse
from pypto_build.pto.ops import TABLE
from pypto_build.pto.torch import UnsupportedOperations, generate, torch_codegen
from pypto_build.pto.torch.lowering import find_lowering
from pypto_build.pto.torch.names import Names, sanitize
from tests.pto.samples import module, operation_for, tile
from tests.pto.torch_run import HEAD, Kernel, namespace, values, view

PTR = "!pto.ptr<f32>"


def functions_of(text: str) -> list[str]:
    tree = ast.parse(torch_codegen(parse(text, "t.pto")))
    return [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]


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
    names = Names({"load"})
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


# --- what is emitted ------------------------------------------------------------------------------------------------


def test_only_modules_and_functions_are_taken() -> None:
    with pytest.raises(TypeError, match=r"^torch_codegen expects Program or Function, got str$"):
        torch_codegen("x")


def test_all_unsupported_operations_are_named_at_once() -> None:
    view_ = "!pto.partition_tensor_view<16x64xf32>"
    text = module(
        f"  pto.comm.twait(%p, %i : {view_}, i32)\n  pto.comm.tnotify(%p, %i : {view_}, i32)", f"%p: {view_}, %i: i32"
    )
    with pytest.raises(UnsupportedOperations) as error:
        torch_codegen(parse(text, "t.pto"))
    assert str(error.value).startswith("Unsupported op 'comm.twait', 'comm.tnotify' in torch_codegen. t.pto:3:")
    assert [name for _, name, _ in error.value.operations] == ["comm.twait", "comm.tnotify"]


def test_operations_without_a_translation_are_these() -> None:
    missing = {name for name, d in TABLE.items() if find_lowering(operation_for(d, 0, full=False)) is None}
    kept = {n for n in missing if not n.startswith("pto.comm.") and "async" not in n and not n.startswith("pto.talloc")}
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


# --- groups ---------------------------------------------------------------------------------------------------------


def full(space: str, split: int, rows: int = 16, cols: int = 64) -> tuple[int, int]:
    """Extents of a vector core's part of a tile."""
    if split in (1, 3):
        return (rows + 1) // 2, cols
    return (rows, (cols + 1) // 2) if split in (2, 4) else (rows, cols)


def opened(core: str, mask: int, more: str = "") -> str:
    return f"  pto.{core}_initialize_pipe {{dir_mask = {mask}, slot_size = 4096{more}}}\n"


def function(name: str, kind: str, args: str, body: str) -> str:
    """A kernel for one of the cores."""
    attributes = f"attributes {{pto.kernel_kind = #pto.kernel_kind<{kind}>}}"
    return f"  func.func @{name}({args}) {attributes} {{\n{body}  return\n  }}\n"


def transfer(name: str, source: str, target: str, type_: str, rows: int = 16, cols: int = 64) -> str:
    """`pto.tload` or `pto.tstore` between a tile and a window."""
    part = f"!pto.partition_tensor_view<{rows}x{cols}xf32>"
    types = (part, type_) if name == "tload" else (type_, part)
    return f"  pto.{name} ins({source} : {types[0]}) outs({target} : {types[1]})\n"


TWO, LANE = f"%a: {PTR}, %b: {PTR}", "%__pypto_spmd_subblock_idx: i32"


def part_of(view_: str, split: int, rows: int, cols: int) -> str:
    """`%q`, the window of this vector core's part of a whole view."""
    row, col = {0: ("%c0", "%c0"), 1: ("%o", "%c0"), 2: ("%c0", "%o")}[split]
    return (
        "  %l = arith.index_cast %__pypto_spmd_subblock_idx : i32 to index\n"
        f"  %n = arith.constant {rows if split == 1 else cols} : index\n  %o = arith.muli %l, %n : index\n"
        f"  %h = arith.constant {rows} : index\n  %w = arith.constant {cols} : index\n"
        f"  %q = pto.partition_view {view_}, offsets = [{row}, {col}], sizes = [%h, %w] "
        f": !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<{rows}x{cols}xf32>\n"
    )


def cube_to_vector(split: int) -> str:
    """The cube core pushes a loaded tile, the vector cores double their parts of it."""
    mat, (rows, cols) = tile("mat", 16, 64), full("vec", split)
    part = tile(rows=rows, cols=cols)
    cube = HEAD + view("x", "%a", 16, 64, "f32") + opened("aic", 1) + f"  %t = pto.alloc_tile : {mat}\n"
    cube += transfer("tload", "%x", "%t", mat) + f"  pto.tpush_to_aiv(%t : {mat}) {{split = {split}}}\n"
    vector = HEAD + view("y", "%b", 16, 64, "f32") + opened("aiv", 1)
    vector += f"  %p = pto.tpop_from_aic {{split = {split}}} -> {part}\n  %s = pto.alloc_tile : {part}\n"
    vector += f"  pto.tadd ins(%p, %p : {part}, {part}) outs(%s : {part})\n"
    vector += f"  pto.tfree_from_aic {{split = {split}}}\n" + part_of("%y_v", split, rows, cols)
    vector += transfer("tstore", "%s", "%q", part, rows, cols)
    return (
        f"module {{\n{function('g_aic', 'cube', TWO, cube)}{function('g_aiv', 'vector', f'{TWO}, {LANE}', vector)}}}\n"
    )


def vector_to_cube(split: int) -> str:
    """The vector cores push parts of a tensor, the cube core stores the tile they make."""
    mat, (rows, cols) = tile("mat", 16, 64), full("vec", split)
    part = tile(rows=rows, cols=cols)
    cube = HEAD + view("y", "%b", 16, 64, "f32") + opened("aic", 2)
    cube += f"  %p = pto.tpop_from_aiv {{split = {split}}} -> {mat}\n" + transfer("tstore", "%p", "%y", mat)
    vector = HEAD + view("x", "%a", 16, 64, "f32") + opened("aiv", 2) + part_of("%x_v", split, rows, cols)
    vector += f"  %s = pto.alloc_tile : {part}\n" + transfer("tload", "%q", "%s", part, rows, cols)
    vector += f"  pto.tpush_to_aic(%s : {part}) {{split = {split}}}\n"
    return (
        f"module {{\n{function('g_aic', 'cube', TWO, cube)}{function('g_aiv', 'vector', f'{TWO}, {LANE}', vector)}}}\n"
    )


@pytest.mark.parametrize(("direction", "split"), list(itertools.product((cube_to_vector, vector_to_cube), (0, 1, 2))))
def test_split_modes_in_both_directions(direction: Any, split: int) -> None:
    text = direction(split)
    made, emitted = namespace(text), torch_codegen(parse(text, "t.pto"))
    a, b = values("f32", 16, 64), torch.zeros(16, 64)
    made["run"](a, b)
    assert torch.equal(b, a * 2 if direction is cube_to_vector else a)
    assert ("_run_scheduler([" in emitted) == (split > 0)
    name = "_tpush_to_aiv" if direction is cube_to_vector else "_tpush_to_aic"
    pipe = f"_pipes['{name[7:]}']"
    assert (f"(yield from {name}_g({pipe}, " if split else f"    {name}({pipe}, ") in emitted
    lanes = '("g_aiv#0", g_aiv(a, b, 0), 0),\n        ("g_aiv#1", g_aiv(a, b, 1), 1),'
    assert (lanes in emitted) == (split > 0)
    assert all(len(pipe) == 0 for pipe in made["_pipes"].values())


def both_wait() -> str:
    """Each core waits for the other before it pushes."""
    mat, vec = tile("mat", 16, 64), tile()
    cube = opened("aic", 3) + f"  %p = pto.tpop_from_aiv {{split = 0}} -> {mat}\n"
    vector = opened("aiv", 3) + f"  %p = pto.tpop_from_aic {{split = 0}} -> {vec}\n"
    cube += f"  pto.tpush_to_aiv(%p : {mat}) {{split = 0}}\n"
    vector += f"  pto.tpush_to_aic(%p : {vec}) {{split = 0}}\n"
    return f"module {{\n{function('g_aic', 'cube', '', cube)}{function('g_aiv', 'vector', '', vector)}}}\n"


def test_deadlock_names_members_what_they_wait_for_and_the_pipes() -> None:
    with pytest.raises(RuntimeError) as error:
        namespace(both_wait())["run"]()
    assert str(error.value) == (
        "Cross-core simulation deadlock; tasks blocked: "
        "[(g_aic, _WaitPop: waits for a tile from to_aic: 0 of 4 slots), "
        "(g_aiv, _WaitPop: waits for a tile from to_aiv: 0 of 4 slots)]"
    )


def pushes(count: int, pops: int, slots: int = 2) -> str:
    """A cube core that pushes so many tiles before it waits for an answer; a vector core that pops so many."""
    mat, vec = tile("mat", 16, 64), tile()
    more = f", slot_num = {slots}"
    cube = opened("aic", 3, more) + f"  %t = pto.alloc_tile : {mat}\n"
    cube += f"  pto.tpush_to_aiv(%t : {mat}) {{split = 0}}\n" * count
    cube += f"  %p = pto.tpop_from_aiv {{split = 0}} -> {mat}\n"
    vector = opened("aiv", 3, more) + f"  %t = pto.alloc_tile : {vec}\n"
    vector += "".join(f"  %p{i} = pto.tpop_from_aic {{split = 0}} -> {vec}\n" for i in range(pops))
    vector += f"  pto.tpush_to_aic(%t : {vec}) {{split = 0}}\n"
    return f"module {{\n{function('g_aic', 'cube', '', cube)}{function('g_aiv', 'vector', '', vector)}}}\n"


def test_a_full_pipe_holds_the_producer() -> None:
    namespace(pushes(4, 4))["run"]()
    with pytest.raises(RuntimeError, match=r"\(g_aic, _WaitPush: waits for a free slot in to_aiv: 2 of 2 slots\)\]$"):
        namespace(pushes(4, 1))["run"]()


def test_leftovers_are_reported_and_gone_at_the_next_start(capsys: pytest.CaptureFixture[str]) -> None:
    made = namespace(pushes(3, 1))
    made["run"]()
    assert capsys.readouterr().out == ("note: tiles left in pipes at the end of g_aic, g_aiv: to_aiv: 2 of 2 slots\n")
    made["_reset_pipes"]()
    assert len(made["_pipes"]["to_aiv"]) == 0


def test_pipes_with_ids_are_apart() -> None:
    mat, vec = tile("mat", 16, 64), tile()
    cube = HEAD + view("x", "%a", 16, 64, "f32") + opened("aic", 1) + opened("aic", 1, ", id = 1")
    cube += f"  %t = pto.alloc_tile : {mat}\n  %z = pto.alloc_tile : {mat}\n" + transfer("tload", "%x", "%t", mat)
    cube += f"  pto.tpush_to_aiv(%t : {mat}) {{id = 1, split = 0}}\n  pto.tpush_to_aiv(%z : {mat}) {{split = 0}}\n"
    vector = HEAD + view("y", "%b", 16, 64, "f32") + opened("aiv", 1) + opened("aiv", 1, ", id = 1")
    vector += f"  %p = pto.tpop_from_aic {{split = 0}} -> {vec}\n"
    vector += f"  %q = pto.tpop_from_aic {{id = 1, split = 0}} -> {vec}\n" + transfer("tstore", "%q", "%y", vec)
    text = f"module {{\n{function('g_aic', 'cube', TWO, cube)}{function('g_aiv', 'vector', TWO, vector)}}}\n"
    a, b = values("f32", 16, 64), torch.zeros(16, 64)
    namespace(text)["run"](a, b)
    assert torch.equal(a, b)
    assert "_pipes['to_aiv#1']" in torch_codegen(parse(text, "t.pto"))


def test_written_groups_call_their_members_in_order() -> None:
    kernels = "".join(
        function(
            name, kind, "%p: !pto.ptr<i32>",
            f"{HEAD}  %old = pto.load_scalar %p[%c0] : !pto.ptr<i32> -> i32\n  %n = arith.constant {n} : i32\n"
            f"  %new = arith.{what} %old, %n : i32\n  pto.store_scalar %new, %p[%c0] : !pto.ptr<i32>, i32\n",
        )
        for name, kind, what, n in (("twice", "cube", "muli", 2), ("more", "vector", "addi", 1))
    )  # fmt: skip
    group = (
        "  func.func @group(%p: !pto.ptr<i32>) {\n    call @twice(%p) : (!pto.ptr<i32>) -> ()\n"
        "    call @more(%p) : (!pto.ptr<i32>) -> ()\n    return\n  }\n"
    )
    text = f"module {{\n{group}{kernels}}}\n"
    emitted = torch_codegen(parse(text, "t.pto"))
    assert "    # Group: twice, more\n" in emitted
    assert "_run_scheduler" not in emitted
    assert functions_of(text)[-4:] == ["twice", "more", "group", "run"]
    out = torch.tensor([5], dtype=torch.int32)
    namespace(text)["run"](out)
    assert out.item() == 11


def test_written_groups_that_take_turns_are_scheduled() -> None:
    text = cube_to_vector(1)
    group = (
        f"  func.func @both({TWO}) {{\n    %l = arith.constant 0 : i32\n"
        f"    call @g_aic(%a, %b) : ({PTR}, {PTR}) -> ()\n"
        f"    call @g_aiv(%a, %b, %l) : ({PTR}, {PTR}, i32) -> ()\n    return\n  }}\n"
    )
    text = text.rstrip().removesuffix("}") + group + "}\n"
    assert "    # Group (scheduled): g_aic, g_aiv\n    _reset_pipes()\n" in torch_codegen(parse(text, "t.pto"))
    a, b = values("f32", 16, 64), torch.zeros(16, 64)
    made = namespace(text)
    for _ in range(2):  # groups in loops start with empty pipes
        made["run"](a, b)
    assert torch.equal(b, a * 2)
