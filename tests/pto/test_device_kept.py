"""Modules that were reported as wrong on a device and keep every rule: the reason, and a twin that breaks one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pypto_build.pto import parse
from pypto_build.pto.checks import check_module
from tests.pto.samples import module, tile


@dataclass(frozen=True)
class Kept:
    body: str
    reason: str
    old: str  # of the twin
    new: str
    broken: str


def alloc(name: str, type_: str, address: int, rows: int = 64, cols: int = 64) -> str:
    return (
        f"  %a_{name} = arith.constant {address} : i64\n"
        f"  %{name} = pto.alloc_tile addr = %a_{name} valid_row = %c{rows} valid_col = %c{cols} : {type_}\n"
    )


CONSTANTS = "".join(f"  %c{value} = arith.constant {value} : index\n" for value in (0, 1, 5, 16, 64, 128))
WIDE, COLUMN, PADDED = (
    tile(rows=64, cols=64),
    tile(rows=64, cols=1, blayout="col_major"),
    tile(rows=64, cols=64, pad="1"),
)
DOUBLE = tile(rows=64, cols=128)
KEPT = {
    "a scratch tile of one column": Kept(
        alloc("t", WIDE, 0) + alloc("tmp", COLUMN, 65536, 64, 1) + alloc("m", COLUMN, 98304, 64, 1)
        + f"  pto.trowmax ins(%t, %tmp : {WIDE}, {COLUMN}) outs(%m : {COLUMN})",
        "64 floats are one repeat of 256 bytes: the device reduces it without the scratch tile",
        "", "", "cols(tmp) * size(tmp) >= 256",
    ),
    "padding of a tile whose valid rows are set": Kept(
        alloc("e", WIDE, 0) + alloc("z", PADDED, 65536)
        + f"  pto.set_validshape %e, %c5, %c64 : {WIDE}\n"
        + f"  pto.tfillpad ins(%e : {WIDE}) outs(%z : {PADDED})",
        "the padded tile is another one, has a pad value, and at least the valid extents of its source; the report was "
        "about the assembler, which lost the extents",
        PADDED, WIDE, "pad(dst) != '0'",
    ),
    "a tile that a loop carries": Kept(
        alloc("t", WIDE, 0) + alloc("first", WIDE, 65536)
        + f"  %r = scf.for %i = %c0 to %c16 step %c1 iter_args(%acc = %first) -> ({WIDE}) {{\n"
        + alloc("n", WIDE, 98304).replace("  %", "    %")
        + f"    pto.tadd ins(%acc, %t : {WIDE}, {WIDE}) outs(%n : {WIDE})\n    scf.yield %n : {WIDE}\n  }}\n"
        + f"  pto.tneg ins(%r : {WIDE}) outs(%t : {WIDE})",
        "elements may be added onto an operand at its own address; the report was about addresses that the assembler "
        "planned, which the module does not have",
        "%a_n = arith.constant 98304", "%a_n = arith.constant 64", "same_or_apart(dst, src1)",
    ),
}  # fmt: skip


def broken(body: str) -> list[str]:
    text = module(CONSTANTS + body)
    return [error.message for error in check_module(parse(text, "k.pto"), "a2a3")]


@pytest.mark.parametrize("name", KEPT)
def test_it_keeps_the_rules(name: str) -> None:
    assert broken(KEPT[name].body) == [], KEPT[name].reason


@pytest.mark.parametrize("name", KEPT)
def test_the_twin_breaks_one(name: str) -> None:
    kept = KEPT[name]
    body = kept.body.replace(kept.old, kept.new) if kept.old else kept.body.replace(WIDE, DOUBLE).replace(
        "valid_col = %c64", "valid_col = %c128"
    )  # fmt: skip
    messages = broken(body)
    assert any(kept.broken in message for message in messages), messages
