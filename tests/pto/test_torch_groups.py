"""Groups of kernels as PyTorch: all split modes in both directions, several pipes, turns, deadlocks, leftovers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from pypto_build.pto import parse
from pypto_build.pto.torch import torch_codegen
from tests.pto.samples import tile
from tests.pto.torch_groups import (
    PTR,
    TWO,
    both_wait,
    cube_to_vector,
    function,
    functions_of,
    group,
    odd_to_cube,
    odd_to_vector,
    opened,
    pushes,
    residual,
    transfer,
    vector_to_cube,
)  # fmt: skip
from tests.pto.torch_run import HEAD, namespace, values, view
from tests.rows import every


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


def test_deadlock_names_members_what_they_wait_for_and_the_pipes() -> None:
    with pytest.raises(RuntimeError) as error:
        namespace(both_wait())["run"]()
    assert str(error.value) == (
        "Cross-core simulation deadlock; tasks blocked: "
        "[(g_aic, _WaitPop: waits for a tile from to_aic: 0 of 4 slots), "
        "(g_aiv, _WaitPop: waits for a tile from to_aiv: 0 of 4 slots)]"
    )


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


@every(("split", "rows", "cols"), [(3, 15, 64), (3, 9, 33), (4, 16, 63), (4, 7, 5)])
@every("direction", [odd_to_vector, odd_to_cube])
def test_odd_extents_are_split_with_the_larger_half_first(direction: Any, split: int, rows: int, cols: int) -> None:
    made = namespace(direction(split, rows, cols))
    a, b = values("f32", rows, cols), torch.zeros(rows, cols)
    made["run"](a, b)
    assert torch.equal(b, a * 2 if direction is odd_to_vector else a)


@pytest.mark.parametrize("split", [0, 1, 2])
def test_a_product_and_a_residual_meet(split: int) -> None:
    a, b, r, c = (values("f32", 16, 16, seed) for seed in range(4))
    namespace(residual(split))["run"](a, b, r, c)
    torch.testing.assert_close(c, (a.double() @ b.double() + r).float(), rtol=1e-5, atol=1e-5)


def _answering(split: int, attributes: str) -> str:
    """The cube core pushes a, gets a back with 1 added, and stores it."""
    mat, vec = tile("mat", 16, 64), tile()
    cube = HEAD + view("x", "%a", 16, 64, "f32") + view("y", "%b", 16, 64, "f32") + opened("aic", 3)
    cube += f"  %t = pto.alloc_tile : {mat}\n" + transfer("tload", "%x", "%t", mat)
    cube += f"  pto.tpush_to_aiv(%t : {mat}) {{split = {split}}}\n"
    cube += f"  %p = pto.tpop_from_aiv {{split = {split}}} -> {mat}\n" + transfer("tstore", "%p", "%y", mat)
    vector = opened("aiv", 3) + f"  %p = pto.tpop_from_aic {{split = {split}}} -> {vec}\n"
    vector += f"  %one = arith.constant 1.0 : f32\n  %s = pto.alloc_tile : {vec}\n"
    vector += f"  pto.tadds ins(%p, %one : {vec}, f32) outs(%s : {vec})\n"
    vector += f"  pto.tpush_to_aic(%s : {vec}) {{split = {split}}}\n"
    return group(cube, vector, attributes)


@pytest.mark.parametrize("attributes", ["", ", dual_aiv_dispatch = true"])
def test_both_directions_with_one_and_with_two_vector_cores(attributes: str) -> None:
    """With two cores that do the same work both get the tile, and the first one's answer counts."""
    text = _answering(0, attributes)
    emitted = torch_codegen(parse(text, "t.pto"))
    assert ('("g_aiv#1", ' in emitted) == bool(attributes)
    made = namespace(text)
    a, b = values("f32", 16, 64), torch.zeros(16, 64)
    made["run"](a, b)
    assert torch.equal(b, a + 1)
    assert all(len(pipe) == 0 for pipe in made["_pipes"].values())


def test_a_member_that_feeds_itself_is_scheduled() -> None:
    mat = tile("mat", 16, 64)
    cube = HEAD + view("x", "%a", 16, 64, "f32") + view("y", "%b", 16, 64, "f32") + opened("aic", 3)
    cube += f"  %t = pto.alloc_tile : {mat}\n" + transfer("tload", "%x", "%t", mat)
    cube += f"  pto.tpush_to_aiv(%t : {mat}) {{split = 0}}\n"
    cube += f"  %p = pto.tpop_from_aiv {{split = 0}} -> {mat}\n" + transfer("tstore", "%p", "%y", mat)
    vector = opened("aiv", 3) + f"  %p = pto.tpop_from_aic {{split = 0}} -> {tile()}\n"
    vector += f"  pto.tpush_to_aic(%p : {tile()}) {{split = 0}}\n"
    text = group(cube, vector)
    assert "_run_scheduler([" in torch_codegen(parse(text, "t.pto"))
    a, b = values("f32", 16, 64), torch.zeros(16, 64)
    namespace(text)["run"](a, b)
    assert torch.equal(a, b)


def test_what_is_valid_goes_through_a_pipe() -> None:
    """11 x 40 elements of a tile are valid: the consumer, whose tile is valid as a whole, gets zeros for the others."""
    mat, vec = tile("mat", 16, 64), tile()
    cube = HEAD + view("x", "%a", 11, 40, "f32") + opened("aic", 1)
    cube += f"  %t = pto.alloc_tile valid_row = %x_r valid_col = %x_c : {mat}\n"
    cube += transfer("tload", "%x", "%t", mat, 11, 40) + f"  pto.tpush_to_aiv(%t : {mat}) {{split = 0}}\n"
    vector = HEAD + view("y", "%b", 16, 64, "f32") + opened("aiv", 1)
    vector += f"  %p = pto.tpop_from_aic {{split = 0}} -> {vec}\n" + transfer("tstore", "%p", "%y", vec)
    a, b = values("f32", 11, 40), torch.ones(16, 64)
    namespace(group(cube, vector))["run"](a, b)
    assert torch.equal(b, torch.nn.functional.pad(a, (0, 24, 0, 5)))


def test_all_members_meet_at_a_barrier() -> None:
    """The vector core reads what the cube core writes before the barrier; it would run first without it."""
    mat, vec = tile("mat", 16, 64), tile()
    meet = "  pto.syncall() mode = #pto.sync_all_mode<hard>, core_type = #pto.sync_core_type<mix>\n"
    cube = HEAD + view("x", "%a", 16, 64, "f32") + view("y", "%b", 16, 64, "f32")
    cube += f"  %t = pto.alloc_tile : {mat}\n" + transfer("tload", "%x", "%t", mat)
    cube += transfer("tstore", "%t", "%y", mat) + meet
    vector = HEAD + meet + view("y", "%b", 16, 64, "f32") + f"  %s = pto.alloc_tile : {vec}\n"
    vector += transfer("tload", "%y", "%s", vec) + f"  pto.tadd ins(%s, %s : {vec}, {vec}) outs(%s : {vec})\n"
    vector += transfer("tstore", "%s", "%y", vec)
    kernels = function("first", "vector", TWO, vector) + function("second", "cube", TWO, cube)
    both = f"  func.func @both({TWO}) {{\n    call @first(%a, %b) : ({PTR}, {PTR}) -> ()\n"
    both += f"    call @second(%a, %b) : ({PTR}, {PTR}) -> ()\n    return\n  }}\n"
    made = namespace(f"module {{\n{kernels}{both}}}\n")
    a, b = values("f32", 16, 64), torch.zeros(16, 64)
    made["run"](a, b)
    assert torch.equal(b, a * 2)


def test_groups_return_what_their_last_member_returns() -> None:
    made = namespace(_answering(0, ""))

    def member(value: int | None) -> Any:
        yield from ()
        return value

    assert made["_run_scheduler"]([("a", member(1), 0), ("b", member(None), 0), ("c", member(2), 0)]) == 2
    assert made["_run_scheduler"]([("a", member(None), 0)]) is None


def test_blocks_of_a_launch_know_their_number() -> None:
    body = HEAD + (
        "  %i = arith.index_cast %__pypto_spmd_block_idx : i32 to index\n"
        "  pto.store_scalar %__pypto_spmd_block_num, %o[%i] : !pto.ptr<i32>, i32\n"
    )
    args = "%o: !pto.ptr<i32>, %__pypto_spmd_block_idx: i32, %__pypto_spmd_block_num: i32"
    made = namespace(f"module {{\n{function('k', 'vector', args, body)}}}\n")
    out = torch.zeros(4, dtype=torch.int32)
    for block in range(3):
        made["k"](out, block, 3)
    assert out.tolist() == [3, 3, 3, 0]


def test_popping_from_an_empty_pipe_is_an_error() -> None:
    vector = opened("aiv", 1) + f"  %p = pto.tpop_from_aic {{split = 0}} -> {tile()}\n"
    with pytest.raises(IndexError, match="pop from an empty deque"):
        namespace(f"module {{\n{function('k', 'vector', '', vector)}}}\n")["k"]()


def test_what_is_pushed_and_not_popped_stays_in_its_order() -> None:
    mat = tile("mat", 16, 64)
    cube = HEAD + view("x", "%a", 16, 64, "f32") + opened("aic", 1) + f"  %t = pto.alloc_tile : {mat}\n"
    cube += transfer("tload", "%x", "%t", mat) + f"  pto.tpush_to_aiv(%t : {mat}) {{split = 0}}\n" * 2
    made = namespace(f"module {{\n{function('k', 'cube', TWO, cube)}}}\n")
    made["k"](values("f32", 16, 64), torch.zeros(1))
    assert len(made["_pipes"]["to_aiv"]) == 2


def test_splits_are_0_to_4() -> None:
    text = f"  %p = pto.tpop_from_aic {{split = 7}} -> {tile()}\n"
    with pytest.raises(ValueError, match="split must be a number from 0 to 4, found 7"):
        namespace(f"module {{\n{function('k', 'vector', '', opened('aiv', 1) + text)}}}\n")


def test_two_groups_of_a_module_do_not_mix() -> None:
    text = cube_to_vector(1)
    second = text.replace("@g_aic", "@h_aic").replace("@g_aiv", "@h_aiv").removeprefix("module {\n")
    made = namespace(text.rstrip().removesuffix("}") + second)
    emitted = torch_codegen(parse(text.rstrip().removesuffix("}") + second, "t.pto"))
    assert emitted.count("# Group (scheduled): ") == 2
    a, b, c = values("f32", 16, 64), torch.zeros(16, 64), torch.zeros(16, 64)
    made["g"](a, b)
    made["h"](b, c)
    assert torch.equal(c, a * 4)
