"""Parse, print, parse: every operation of the table in every form, and whole modules in PyPTO's spelling."""

from __future__ import annotations

from pypto_build.pto import Function, Module, Operation, parse, print_module, print_operation
from pypto_build.pto.model import GENERIC, Region
from pypto_build.pto.ops import TABLE
from pypto_build.pto.ops.format import compile_format
from tests.pto.samples import operation_for, tile
from tests.rows import every

WITH_READERS = {"scf.for", "scf.if", "scf.while"}
FORMS = [
    (name, form, full)
    for name, definition in TABLE.items()
    if name not in WITH_READERS
    for form in range(len(definition.variants))
    for full in (False, True)
]


@every(("name", "form", "full"), FORMS)
def test_every_form_of_every_operation(name: str, form: int, full: bool) -> None:
    op = operation_for(TABLE[name], form, full=full)
    op.operands = {role: values for role, values in op.operands.items() if values or TABLE[name].variants[form].format}
    made = Module([Function("f", body=Region([op]))])
    text = print_module(made)
    again = parse(text)
    (function,) = again.functions()
    assert function.body is not None
    (read,) = function.body.ops
    # the first form that takes the values is the one that is found; it prints the same
    assert print_operation(read) == print_operation(op)
    assert parse(print_module(again)) == again


@every("name", [n for n, d in TABLE.items() if not d.variants[0].format])
def test_quoted_form(name: str) -> None:
    op = operation_for(TABLE[name], 0, full=True)
    op.variant = GENERIC
    text = f"func.func @f() {{\n{print_operation(op)}\n}}\n"
    function = next(iter(parse(text).functions()))
    assert function.body is not None
    assert function.body.ops[0] == op


def test_every_format_compiles() -> None:
    for definition in TABLE.values():
        for form in definition.variants:
            if form.format and definition.name not in WITH_READERS:
                assert compile_format(form.format)


PYPTO = f"""\
module attributes {{pto.target_arch = "a2a3"}} {{
  func.func @f(%arg0: !pto.ptr<f32>, %arg1: index) attributes {{pto.kernel_kind = #pto.kernel_kind<vector>}} {{
  %c0_i64 = arith.constant 0 : i64
  %cn3_index = arith.constant -3 : index
  %cst_7 = arith.constant 1.56250000000000000e-02 : f32
  %cst_8 = arith.constant 0x7F800000 : f32
  %on = arith.constant true
  %a_view = pto.make_tensor_view %arg0, shape = [%arg1, %arg1], strides = [%arg1, %arg1] \
{{layout = #pto.layout<nd>}} : !pto.tensor_view<?x?xf32>
  %t = pto.alloc_tile addr = %c0_i64 valid_row = %arg1 valid_col = %arg1 : {tile()} loc("k.py":12:4)
  pto.aic_initialize_pipe {{dir_mask = 1, slot_size = 65536, slot_num = 2}}
      (gm_slot_buffer = %arg0 : !pto.ptr<f32>, c2v_consumer_buf = %c0_i32 : i32, v2c_consumer_buf = %c0_i32 : i32)
  %x:2 = scf.for %i = %arg1 to %arg1 step %arg1 iter_args(%p = %arg1, %q = %c0_i64) -> (index, i64) {{
    %s = arith.addi %p, %i : index
    %m = arith.cmpi slt, %s, %x#1 : index
    %r = scf.if %m -> (i64) {{
      scf.yield %q : i64
    }} else {{
      scf.yield %c0_i64 : i64
    }}
    scf.yield %s, %r : index, i64
  }}
  %w = scf.while (%k = %arg1) : (index) -> index {{
    %n = arith.cmpi sgt, %k, %arg1 : index
    scf.condition(%n) %k : index
  }} do {{
  ^bb0(%k2: index):
    scf.yield %k2 : index
  }}
  pto.section.cube {{
    pto.barrier <PIPE_ALL>
  }}
  pto.tcvt ins(%t {{rmode = #pto<round_mode ROUND>}} : {tile()}) outs(%t : {tile(dtype="f16")}) loc("k.py":13:4)
  pto.tpush_to_aiv(%t : {tile("acc")}) {{split = 1}}
  %u = pto.tpop_from_aic {{id = 2, split = 1}} -> {tile()}
  %v = pto.tpop_from_aic(%arg1, %arg1) {{split = 0}} -> {tile()}
  "pto.ttri"(%c0_i64, %t) <{{upperOrLower = 0 : i32}}> : (i64, {tile()}) -> ()
  pto.tfree_from_aic {{split = 1}}
  %val = pto.tgetval ins(%t, %arg1 : {tile()}, index) outs : f32
  func.call @g(%arg0) : (!pto.ptr<f32>) -> ()
  return
  }}
  func.func private @g(!pto.ptr<f32>)
}}
"""


def test_pypto_spelling_is_kept_to_the_byte() -> None:
    assert print_module(parse(PYPTO)) == PYPTO


def test_model_of_a_module() -> None:
    read = parse(PYPTO)
    f, g = read.functions()
    assert (f.name, f.kernel_kind, g.visibility, g.body) == ("f", "vector", "private", None)
    assert f.body is not None
    loop = next(op for op in f.body.ops if op.name == "scf.for")
    assert loop.results == ("%x#0", "%x#1")
    assert [name for name, _ in loop.regions[0].args] == ["%i", "%p", "%q"]
    alloc = next(op for op in f.body.ops if op.name == "pto.alloc_tile")
    assert alloc.loc is not None
    assert (alloc.loc.file, alloc.loc.line, alloc.loc.column) == ("k.py", 12, 4)
    assert str(read.source.position(alloc.token)) == "<pto>:9:3"


def test_comments_and_spacing_do_not_count() -> None:
    plain = parse("func.func @f(%a: index) {\n  %b = arith.addi %a, %a : index\n  return\n}\n")
    loose = parse("// one\nfunc.func   @f( %a : index ) { // two\n%b=arith.addi %a,%a:index\n return } // three")
    assert loose == plain


def test_operations_compare_by_meaning() -> None:
    short = parse("func.func @f() {\n%t = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32, valid=?x?>\nreturn\n}\n")
    long_ = parse(f"func.func @f() {{\n%t = pto.alloc_tile : {tile()}\nreturn\n}}\n")
    assert short == long_
    assert "valid=?x?" in print_module(short)
    assert isinstance(next(iter(short.functions())).body, Region)
    assert isinstance(next(iter(short.functions())).body.ops[0], Operation)  # type: ignore[union-attr]
