"""Operations made in Python print like PyPTO's."""

from __future__ import annotations

import pytest

from pypto_build.pto import print_operation
from pypto_build.pto.build import operation
from pypto_build.pto.model import EnumAttr, IntAttr, SymbolAttr
from pypto_build.pto.types import parse_type, tile_type

T = tile_type("vec", "f32", 16, 64)
F32, INDEX, PTR = parse_type("f32"), parse_type("index"), parse_type("!pto.ptr<f32>")
VIEW = parse_type("!pto.tensor_view<?x?xf32>")


def test_tile_instruction() -> None:
    op = operation("pto.tadd", src0=("%a", T), src1=("%b", T), dst=("%c", T))
    assert print_operation(op) == f"pto.tadd ins(%a, %b : {T}, {T}) outs(%c : {T})"


def test_the_given_roles_choose_the_form() -> None:
    made = [
        operation("pto.trowmax", src=("%a", T), dst=("%c", T)),
        operation("pto.trowmax", src=("%a", T), tmp=("%t", T), dst=("%c", T)),
    ]
    assert [print_operation(op).split(" :")[0] for op in made] == ["pto.trowmax ins(%a", "pto.trowmax ins(%a, %t"]


def test_formats() -> None:
    view = operation(
        "pto.make_tensor_view",
        ptr=("%p", PTR),
        shape=[("%m", INDEX), ("%n", INDEX)],
        strides=[("%n", INDEX), ("%one", INDEX)],
        attrs={"layout": EnumAttr("nd", "layout")},
        results=[("%v", VIEW)],
    )
    assert print_operation(view) == (
        "%v = pto.make_tensor_view %p, shape = [%m, %n], strides = [%n, %one] {layout = #pto.layout<nd>} : "
        "!pto.tensor_view<?x?xf32>"
    )
    store = operation("pto.store_scalar", value=("%x", F32), ptr=("%p", PTR), index=("%i", INDEX))
    assert print_operation(store) == "pto.store_scalar %x, %p[%i] : !pto.ptr<f32>, f32"
    push = operation("pto.tpush_to_aiv", tile=("%t", T), attrs={"split": IntAttr(1)})
    assert print_operation(push) == f"pto.tpush_to_aiv(%t : {T}) {{split = 1}}"
    call = operation("func.call", args=[("%p", PTR)], attrs={"callee": SymbolAttr("g")})
    assert print_operation(call) == "func.call @g(%p) : (!pto.ptr<f32>) -> ()"


@pytest.mark.parametrize(
    ("name", "operands", "message"),
    [
        ("pto.tnone", {}, "there is no operation pto.tnone"),
        ("pto.tadd", {"src0": ("%a", T)}, "pto.tadd takes (src0, src1, dst), found (src0)"),
        ("pto.tabs", {"src": ("%a", T), "out": ("%b", T)}, "pto.tabs takes (src, dst), found (src, out)"),
        ("pto.get_block_idx", {}, "pto.get_block_idx has 1 results, but 0 are given"),
    ],
)
def test_what_does_not_fit(name: str, operands: dict[str, tuple[str, object]], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        operation(name, **operands)  # type: ignore[arg-type]
    assert str(raised.value) == message
