"""Modules whose kernels exchange tiles, as text."""

from __future__ import annotations

import ast

from pypto_build.pto import parse
from pypto_build.pto.torch import torch_codegen
from tests.pto.samples import tile
from tests.pto.torch_run import HEAD, view

PTR = "!pto.ptr<f32>"


def functions_of(text: str) -> list[str]:
    """The functions of a module's PyTorch, in order."""
    tree = ast.parse(torch_codegen(parse(text, "t.pto")))
    return [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]


def full(space: str, split: int, rows: int = 16, cols: int = 64) -> tuple[int, int]:
    """Extents of a vector core's part of a tile."""
    if split in (1, 3):
        return (rows + 1) // 2, cols
    return (rows, (cols + 1) // 2) if split in (2, 4) else (rows, cols)


def opened(core: str, mask: int, more: str = "") -> str:
    name = {"aic": "pto.aic_initialize_pipe", "aiv": "pto.aiv_initialize_pipe"}[core]
    return f"  {name} {{dir_mask = {mask}, slot_size = 4096{more}}}\n"


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
    cube += f"  pto.tfree_from_aiv {{split = {split}}}\n"
    vector = HEAD + view("x", "%a", 16, 64, "f32") + opened("aiv", 2) + part_of("%x_v", split, rows, cols)
    vector += f"  %s = pto.alloc_tile : {part}\n" + transfer("tload", "%q", "%s", part, rows, cols)
    vector += f"  pto.tpush_to_aic(%s : {part}) {{split = {split}}}\n"
    return (
        f"module {{\n{function('g_aic', 'cube', TWO, cube)}{function('g_aiv', 'vector', f'{TWO}, {LANE}', vector)}}}\n"
    )


def both_wait() -> str:
    """Let each core wait for the other before it pushes."""
    mat, vec = tile("mat", 16, 64), tile()
    cube = opened("aic", 3) + f"  %p = pto.tpop_from_aiv {{split = 0}} -> {mat}\n"
    vector = opened("aiv", 3) + f"  %p = pto.tpop_from_aic {{split = 0}} -> {vec}\n"
    cube += f"  pto.tpush_to_aiv(%p : {mat}) {{split = 0}}\n"
    vector += f"  pto.tpush_to_aic(%p : {vec}) {{split = 0}}\n"
    return f"module {{\n{function('g_aic', 'cube', '', cube)}{function('g_aiv', 'vector', '', vector)}}}\n"


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


def index(name: str, value: int) -> str:
    return f"  %{name} = arith.constant {value} : index\n"


def window(name: str, view_: str, offsets: tuple[str, str], sizes: tuple[str, str]) -> str:
    """A part of a view whose extents are computed."""
    return (
        f"  %{name} = pto.partition_view {view_}, offsets = [{', '.join(offsets)}], sizes = [{', '.join(sizes)}] "
        ": !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<?x?xf32>\n"
    )


def move(name: str, source: str, target: str, type_: str) -> str:
    """`pto.tload` or `pto.tstore` with a window whose extents are computed."""
    part = "!pto.partition_tensor_view<?x?xf32>"
    types = (part, type_) if name == "tload" else (type_, part)
    return f"  pto.{name} ins({source} : {types[0]}) outs({target} : {types[1]})\n"


def _odd_part(split: int, rows: int, cols: int) -> tuple[str, tuple[str, str], tuple[str, str], str]:
    """Return a vector core's part of a tile without even halves.

    The result has the code of its extents, the window's offsets and extents, and the tile's type.
    """
    larger = (rows + 1) // 2 if split == 3 else (cols + 1) // 2
    text = "  %l = arith.index_cast %__pypto_spmd_subblock_idx : i32 to index\n" + index("m", larger)
    text += "  %o = arith.muli %l, %m : index\n  %n = arith.subi %m, %l : index\n"
    text += index("all", cols if split == 3 else rows)
    offsets, extents = (("%o", "%c0"), ("%n", "%all")) if split == 3 else (("%c0", "%o"), ("%all", "%n"))
    kind = tile(rows=larger, cols=cols) if split == 3 else tile(rows=rows, cols=larger)
    return text, offsets, extents, kind


def odd_to_vector(split: int, rows: int, cols: int) -> str:
    """The cube core pushes a tile that has no even halves; the vector cores double their parts."""
    mat = tile("mat", 16, 64)
    cube = HEAD + view("x", "%a", rows, cols, "f32") + opened("aic", 1)
    cube += f"  %t = pto.alloc_tile valid_row = %x_r valid_col = %x_c : {mat}\n" + transfer(
        "tload", "%x", "%t", mat, rows, cols
    )
    cube += f"  pto.tpush_to_aiv(%t : {mat}) {{split = {split}}}\n"
    head, offsets, extents, kind = _odd_part(split, rows, cols)
    vector = HEAD + view("y", "%b", rows, cols, "f32") + opened("aiv", 1) + head
    vector += f"  %p = pto.tpop_from_aic({extents[0]}, {extents[1]}) {{split = {split}}} -> {kind}\n"
    vector += f"  %s = pto.alloc_tile valid_row = {extents[0]} valid_col = {extents[1]} : {kind}\n"
    vector += f"  pto.tadd ins(%p, %p : {kind}, {kind}) outs(%s : {kind})\n"
    vector += window("q", "%y_v", offsets, extents) + move("tstore", "%s", "%q", kind)
    return group(cube, vector)


def odd_to_cube(split: int, rows: int, cols: int) -> str:
    """The vector cores push a larger and a smaller part; the cube core stores the tile they make."""
    mat = tile("mat", 16, 64)
    cube = HEAD + view("y", "%b", rows, cols, "f32") + opened("aic", 2)
    cube += f"  %p = pto.tpop_from_aiv(%y_r, %y_c) {{split = {split}}} -> {mat}\n"
    cube += transfer("tstore", "%p", "%y", mat, rows, cols)
    head, offsets, extents, kind = _odd_part(split, rows, cols)
    vector = HEAD + view("x", "%a", rows, cols, "f32") + opened("aiv", 2) + head
    vector += f"  %s = pto.alloc_tile valid_row = {extents[0]} valid_col = {extents[1]} : {kind}\n"
    vector += window("q", "%x_v", offsets, extents) + move("tload", "%q", "%s", kind)
    vector += f"  pto.tpush_to_aic(%s : {kind}) {{split = {split}}}\n"
    return group(cube, vector)


def group(cube: str, vector: str, attributes: str = "") -> str:
    """A module with a kernel for the cube core and one that two vector cores may share."""
    kernels = function("g_aic", "cube", TWO, cube), function("g_aiv", "vector", f"{TWO}, {LANE}", vector)
    text = f"module {{\n{''.join(kernels)}}}\n"
    return text.replace("#pto.kernel_kind<vector>", f"#pto.kernel_kind<vector>{attributes}")


def residual(split: int) -> str:
    """c = a @ b + r: the product goes to the vector cores in parts, each adds its part of r and stores it."""
    rows, cols = full("vec", split, 16, 16)
    part, mat = tile(rows=rows, cols=cols), tile("mat", 16, 16)
    left, right, acc = tile("left", 16, 16), tile("right", 16, 16), tile("acc", 16, 16)
    args = ", ".join(f"%{n}: {PTR}" for n in "abrc")
    cube = HEAD + view("x", "%a", 16, 16, "f32") + view("y", "%b", 16, 16, "f32") + opened("aic", 1)
    for name, type_, space in (("x", left, "l"), ("y", right, "w")):
        cube += f"  %{name}m = pto.alloc_tile : {mat}\n  %{space} = pto.alloc_tile : {type_}\n"
        cube += transfer("tload", f"%{name}", f"%{name}m", mat, 16, 16)
        cube += f"  pto.tmov ins(%{name}m : {mat}) outs(%{space} : {type_})\n"
    cube += f"  %z = pto.alloc_tile : {acc}\n  pto.tmatmul ins(%l, %w : {left}, {right}) outs(%z : {acc})\n"
    cube += f"  pto.tpush_to_aiv(%z : {acc}) {{split = {split}}}\n"
    vector = HEAD + view("r", "%r", 16, 16, "f32") + view("o", "%c", 16, 16, "f32") + opened("aiv", 1)
    vector += part_of("%r_v", split, rows, cols) + f"  %s = pto.alloc_tile : {part}\n"
    vector += transfer("tload", "%q", "%s", part, rows, cols)
    vector += f"  %p = pto.tpop_from_aic {{split = {split}}} -> {part}\n"
    vector += f"  pto.tadd ins(%p, %s : {part}, {part}) outs(%s : {part})\n"
    row, col = {0: ("%c0", "%c0"), 1: ("%o", "%c0"), 2: ("%c0", "%o")}[split]
    vector = vector.replace("  %o_v ", "  %out_v ").replace("%o_r", "%out_r").replace("%o_c", "%out_c")
    vector = vector.replace("  %o = pto.partition", "  %out = pto.partition").replace("view %o_v", "view %out_v")
    vector += window("t", "%out_v", (row, col), ("%h", "%w")) + move("tstore", "%s", "%t", part)
    kernels = function("g_aic", "cube", args, cube), function("g_aiv", "vector", f"{args}, {LANE}", vector)
    return f"module {{\n{''.join(kernels)}}}\n"
