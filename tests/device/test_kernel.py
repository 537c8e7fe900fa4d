"""Rules of the device on the text of kernels: the line, the kind, and the words of what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pypto_build.device.kernel import OpenCall, check_kernel
from pypto_build.device.run import ExecutedTile, broken_by
from pypto_build.pto import parse
from pypto_build.pto.assemble import assemble
from pypto_build.pto.ops import TABLE
from pypto_build.pto.ops.constraints import Constraint
from pypto_build.pto.ops.device import constraints
from tests.pto.device_cases import Use, planted
from tests.rows import every

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
VEC = "Tile<TileType::Vec, {dtype}, {rows}, {cols}, BLayout::{order}, {valid}, SLayout::NoneBox, 512, PadValue::Null>"


def open_calls(text: bytes) -> list[OpenCall]:
    return check_kernel(text, "k.cpp", "a2a3")[1]


def tile(name: str, address: str, rows: int = 64, cols: int = 128, dtype: str = "float", args: str = "") -> str:
    order = "ColMajor" if cols == 1 else "RowMajor"
    valid = "-1, -1" if args else f"{rows}, {cols}"
    type_ = VEC.format(dtype=dtype, rows=rows, cols=cols, order=order, valid=valid)
    initializer = f" = {type_}({args})" if args else ""
    return f"  {type_} {name}{initializer};\n  TASSIGN({name}, {address});\n"


def kernel(body: str) -> bytes:
    return f"static __aicore__ void k(__gm__ float* v1) {{\n  const int64_t v7 = 0;\n{body}}}\n".encode()


def found(body: str, arch: str = "a2a3") -> list[tuple[int, str, str]]:
    return [(one.line, one.rule, one.message) for one in check_kernel(kernel(body), "kernels/aiv/k.cpp", arch)[0]]


def test_operands_at_one_address() -> None:
    body = tile("a", "v7") + tile("b", "0") + "  TRECIP(b, a);\n"
    assert found(body) == [
        (7, "overlap",
         "TRECIP(b, a) breaks the rule 'apart(dst, src)' (dst is vec 0 to 32768; src is vec 0 to 32768): dst is filled "
         "with ones before src is read: on a2a3 the result is 1.0 everywhere"),
    ]  # fmt: skip
    assert found(tile("a", "v7") + tile("b", "32768") + "  TRECIP(b, a);\n") == []


def test_both_orders_of_a_tile_and_a_number() -> None:
    tiles = tile("a", "v7") + tile("b", "0")
    assert found(tiles + "  TDIVS(b, a, 2.0f);\n") == []
    assert [one[:2] for one in found(tiles + "  TDIVS(b, 2.0f, a);\n")] == [(7, "overlap")]
    assert found(tiles + "  TDIVS(b, 2.0f, a);\n", "a5") == []


def test_scratch_and_what_is_not_known() -> None:
    tiles = tile("s", "0", 64, 256, args="64, 256") + tile("d", "131072", 64, 1)
    small, large = tile("t", "70000", 64, 1), tile("t", "70000", 64, 128)
    assert [one[1] for one in found(tiles + small + "  TROWSUM(d, s, t);\n")] == ["scratch_size"]
    far = tiles.replace("TASSIGN(s, 0)", "TASSIGN(s, 0 + unknown)")
    assert [one[1] for one in found(far + small + "  TROWSUM(d, s, t);\n")] == ["scratch_size"], (
        "no address, no overlap"
    )
    assert found(far + large + "  TROWSUM(d, s, t);\n") == []


def test_an_address_that_changes_is_not_known() -> None:
    body = tile("a", "v7") + tile("b", "0") + "  TASSIGN(b, 65536);\n  TRECIP(b, a);\n"
    assert found(body) == []


def test_extents_that_are_set_while_running_are_not_known() -> None:
    tiles = tile("a", "0", args="64, 128") + tile("b", "65536", args="32, 128")
    assert found(tiles + "  TNEG(b, a);\n") == [], "an assertion that release builds leave out"
    scratch = tile("t", "131072", 8, 64, args="8, 64") + tile("d", "140000", 64, 1)
    call = "  TROWMAX(d, a, t);\n"
    assert {one[1] for one in found(tiles + scratch + call)} == {"scratch_size"}
    assert found(tiles + scratch + "  a.SetValidShape(v1, v1);\n" + call) == []


SET, WAIT = "set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);", "wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);"
FLAGS: list[tuple[str, list[tuple[int, str]]]] = [
    (f"{SET}\n{WAIT}\n", []),
    (f"{SET}\n", [(3, "set_flag")]),
    (f"{WAIT}\n", [(3, "wait_flag")]),
    (f"{SET}\nfor (int i = 0; i < 4; ++i) {{\n{WAIT}\n{SET}\n}}\n{WAIT}\n", []),
    (f"{SET}\nfor (int i = 0; i < 4; ++i) {{\n{WAIT}\n{SET}\n}}\n", [(6, "set_flag")]),
    (f"if (v7) {{\n{SET}\n}} else {{\n{SET}\n}}\n{WAIT}\n", []),
    (f"if (v7) {{\n{SET}\n}}\n{WAIT}\n", []),  # as the branches do not leave alike, nothing is said
    (f"for (int i = 0; i < 4; ++i) {{\n{SET}\n}}\n", [(4, "set_flag")]),
    (f"for (int i = 0; i < 4; ++i) {{\n{WAIT}\n}}\n", [(4, "wait_flag")]),
]


@pytest.mark.parametrize(("body", "expected"), FLAGS)
def test_flags(body: str, expected: list[tuple[int, str]]) -> None:
    assert [(line, message.partition("(")[0]) for line, rule, message in found(body) if rule == "flag"] == expected


POP, FREE = "TPOP<P, T, TileSplitAxis::TILE_NO_SPLIT>(pipe, a);", "TFREE<P, TileSplitAxis::TILE_NO_SPLIT>(pipe);"


def test_slots_of_pipes() -> None:
    tiles = tile("a", "v7") + tile("b", "32768")
    assert found(f"{tiles}{POP}\nTNEG(b, a);\n{FREE}\n") == []
    assert found(f"{tiles}{POP}\n{FREE}\nTNEG(b, a);\n") == [
        (9, "order", "TNEG uses a after the TFREE that released its slot")
    ]
    assert found(f"{tiles}{POP}\nTNEG(b, a);\n") == [
        (7, "pipe", "TPOP(pipe) without its TFREE: its slot is never given back: the producer waits for ever")
    ]


@every("path", sorted(EXAMPLES.rglob("kernels/*/*.cpp")))
def test_examples_break_no_rule(path: Path) -> None:
    assert check_kernel(path.read_bytes(), path.name, "a2a3")[0] == []


@every("path", sorted(EXAMPLES.rglob("kernels/*/*.cpp")))
def test_each_wait_that_is_deleted_from_an_example_is_found(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    waits = [number for number, line in enumerate(lines) if re.match(r"\s*(wait_flag|TFREE\b)", line)]
    missed = []
    for number in waits:
        text = "".join(lines[:number] + lines[number + 1 :]).encode()
        if not check_kernel(text, path.name, "a2a3")[0]:
            missed.append(number + 1)
    assert missed == []


def text_of(use: Use, arch: str) -> bytes:
    """The kernel that a module's function becomes."""
    return assemble(parse(use.text(arch), "k.pto"), f"{arch}sim").text.encode()


#: What our assembler writes as two instructions, or without the operand.
OTHERWISE = {"pto.taddc", "pto.tsubc", "pto.taddsc", "pto.tsubsc", "pto.tquant", "pto.tci", "pto.mgather"}
OVERLAPS = [
    (name, row)
    for name in sorted(TABLE.keys() - OTHERWISE)
    for row in constraints(name)
    if row.kind == "overlap" and row.arch != "a5"
]


@every(("name", "row"), OVERLAPS)
def test_shared_bytes_are_found_in_the_kernel_too(name: str, row: Constraint) -> None:
    use = planted(row, name, "a2a3")
    assert use is not None
    text = text_of(use, "a2a3")
    assert any(one.rule == "overlap" for one in check_kernel(text, "k.cpp", "a2a3")[0]), text.decode()


def executed(space: int, access: int, rows: int, cols: int, address: int, element: int = 4) -> ExecutedTile:
    return ExecutedTile(space, access, element, rows, cols, rows, cols, address)


@pytest.mark.parametrize(("address", "rules"), [(0, ["overlap"]), (32768, [])])
def test_what_a_run_adds(address: int, rules: list[str]) -> None:
    """Operands are matched by memory, shape, size of elements and direction; without a match nothing is added."""
    body = tile("a", "v7") + tile("b", "unknown") + "  TRECIP(b, a);\n"
    assert found(body) == []
    (call,) = open_calls(kernel(body))
    assert (call.line, call.name, call.text) == (7, "TRECIP", "TRECIP(b, a)")
    src, dst = executed(0, 1, 64, 128, 0), executed(0, 2, 64, 128, address)
    assert [constraint.kind for constraint, _ in broken_by(call, [src, dst])] == rules
    assert list(broken_by(call, [src, executed(0, 2, 64, 64, address)])) == []
    assert list(broken_by(call, [src, executed(1, 2, 64, 128, address)])) == []
    assert open_calls(kernel(tile("a", "0") + tile("b", "32768") + "  TRECIP(b, a);\n")) == []


def test_scratch_of_a_run() -> None:
    body = tile("s", "0", 64, 256, args="64, n") + tile("d", "131072", 64, 1) + tile("t", "70000", 64, 1)
    (call,) = open_calls(kernel(body + "  TROWSUM(d, s, t);\n"))
    operands = [executed(0, 1, 64, 256, 0), executed(0, 2, 64, 1, 131072), executed(0, 18, 64, 1, 70016)]
    assert "scratch_size" in [constraint.kind for constraint, _ in broken_by(call, operands)]
    narrow = operands[0]._replace(valid_cols=64)
    assert "scratch_size" not in [constraint.kind for constraint, _ in broken_by(call, [narrow, *operands[1:]])]
