"""Planted violations of operations with a format of their own.

A row is a pattern of the rule's words, an operation that keeps it, and one that breaks it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pypto_build.pto import parse
from pypto_build.pto.checks import check_module
from tests.pto.samples import module, tile

T, MAT, OPEN = tile(), tile("mat"), tile(v_row="16", v_col="64")
HALF, NARROW = tile(rows=8, v_row="8", v_col="64"), tile(rows=8, cols=32, v_row="8", v_col="32")
VIEW, LESS, INTS = (f"!pto.partition_tensor_view<{shape}>" for shape in ("16x64xf32", "8x64xf32", "16x64xi32"))
ARGS = f"%d: {VIEW}, %s: {VIEW}, %less: {LESS}, %n: {INTS}, %v: i32, %f: f32, %p: !pto.ptr<f32>"
BOX = tile("mat", 32, 64, "f16")
BOXED = tile("mat", 16, 32, "f16", v_row="16", v_col="32")


def _alloc(name: str, type_: str, address: int = 0, rows: int = 16) -> str:
    return f"  %{name} = pto.alloc_tile addr = %a{address} valid_row = %c{rows} valid_col = %c64 : {type_}\n"


CONSTANTS = "".join(f"  %c{n} = arith.constant {n} : index\n" for n in (0, 4, 8, 16, 32, 64)) + "".join(
    f"  %a{n} = arith.constant {n} : i64\n" for n in (0, 1024, 4096)
)
TILES = _alloc("b", T) + _alloc("c", T, 4096) + _alloc("over", T, 1024) + _alloc("m", MAT) + _alloc("box", BOX, rows=32)
TILES += f"  %fixed = pto.alloc_tile addr = %a0 : {OPEN}\n  %q = pto.declare_local_array -> !pto.local_array<4xf32>\n"
ARRAY = "!pto.local_array<4xf32>"


@dataclass(frozen=True)
class Plant:
    names: str  # patterns of the operation and of the rule
    rule: str
    good: str
    bad: str

    def is_found(self) -> bool:
        """Return whether the violation is found, at its line, and its twin is clean."""
        return not _lines(self.good) and _lines(self.bad) == {_line(self.bad)}


def _text(operation: str) -> str:
    return module(CONSTANTS + TILES + "  " + operation, ARGS)


def _line(operation: str) -> int:
    return _text(operation).splitlines().index("  " + operation) + 1


def _lines(operation: str) -> set[int]:
    return {error.position.line for error in check_module(parse(_text(operation), "k.pto"), "a2a3")}


def _transfer(name: str, dst: str = "%d", src: str = "%s", stages: str = "%b", types: str = T, more: str = "") -> str:
    views = {"%d": VIEW, "%s": VIEW, "%less": LESS, "%n": INTS}
    return f"pto.comm.{name}({dst}, {src}, buf({stages}) : {views[dst]}, {views[src]}, {types}){more}"


def _signal(name: str, view: str, type_: str) -> str:
    more = "notifyOp = #pto<notify_op set>" if name == "tnotify" else "cmp = #pto<wait_cmp ge>"
    return f"pto.comm.{name}({view}, %v : {type_}, i32) {{{more}}}"


def _window(src: str, at: str, sizes: str, type_: str, result: str, valid: str = "") -> str:
    return f"%w = pto.subview {src}[{at}] sizes [{sizes}]{valid} : {type_} -> {result}"


PLANTS = (
    *(
        Plant(rf"comm\.{name}", rule, _transfer(name), bad)
        for name in ("tput", "tget")
        for rule, bad in (
            (r"elem\(dst\) == elem\(src\)", _transfer(name, src="%n")),
            ("static extents", _transfer(name, src="%less")),
            ("two staging tiles", _transfer(name, stages="%b, %over", types=f"{T}, {T}")),
            ("staging tiles in vec", _transfer(name, stages="%m", types=MAT)),
        )
    ),
    Plant(r"comm\.tput", "atomicType", _transfer("tput"),
          _transfer("tput", more=" {atomicType = #pto<atomic_type atomic_max>}")),
    Plant(r"comm\.tnotify", "signal i32", _signal("tnotify", "%n", INTS), _signal("tnotify", "%d", VIEW)),
    Plant(r"comm\.twait", "signal i32", _signal("twait", "%n", INTS), _signal("twait", "%d", VIEW)),
    Plant("subview", r"offset \+ size", _window("%b", "%c8, %c0", "8, 64", T, HALF),
          _window("%b", "%c16, %c0", "8, 64", T, HALF)),
    Plant("subview", "boxed", _window("%box", "%c16, %c32", "16, 32", BOX, BOXED),
          _window("%box", "%c8, %c32", "16, 32", BOX, BOXED)),
    Plant("subview", r"offset\*size", _window("%b", "%c0, %c8", "8, 32", T, NARROW),
          _window("%b", "%c0, %c4", "8, 32", T, NARROW)),
    Plant("subview", "valid_row <= size", _window("%b", "%c0, %c0", "8, 64", T, HALF, " valid [%c8, %c64]"),
          _window("%b", "%c0, %c0", "8, 64", T, HALF, " valid [%c4, %c64]")),
    Plant("subview", "result: element type", _window("%b", "%c0, %c0", "8, 64", T, HALF),
          _window("%b", "%c0, %c0", "8, 64", T, HALF.replace("f32", "i32"))),
    Plant("set_validshape", "src has dynamic", f"pto.set_validshape %b, %c8, %c64 : {T}",
          f"pto.set_validshape %b, %c32, %c64 : {T}"),
    Plant("set_validshape", "src has dynamic", f"pto.set_validshape %b, %c8, %c64 : {T}",
          f"pto.set_validshape %fixed, %c8, %c64 : {OPEN}"),
    Plant("store_scalar", "pointer to global", "pto.store_scalar %f, %p[%c0] : !pto.ptr<f32>, f32",
          "pto.store_scalar %v, %p[%c0] : !pto.ptr<f32>, i32"),
    Plant("local_array_set", "as many indices", f"pto.local_array_set %q[%c0], %f : {ARRAY}, f32",
          f"pto.local_array_set %q[%c8], %f : {ARRAY}, f32"),
    Plant("local_array_set", "type of the value", f"pto.local_array_set %q[%c0], %f : {ARRAY}, f32",
          f"pto.local_array_set %q[%c0], %v : {ARRAY}, i32"),
)  # fmt: skip


def plant_of(name: str, rule: str) -> Plant | None:
    """Return the planted violation of an operation's rule, if there is one."""
    short = name.removeprefix("pto.")
    return next((one for one in PLANTS if re.fullmatch(one.names, short) and re.match(one.rule, rule)), None)
