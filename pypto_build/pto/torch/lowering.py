"""Finds the translation of an operation: by its family and function, or its family."""

from __future__ import annotations

from ..model import Operation, case_of
from ..ops import TABLE
from . import control, dtypes, pipes, rearranging, tiles  # noqa: F401  (they register what they translate)
from .elementwise import element
from .writer import LOWERINGS, Lower, Writer

# Products of matrices to Python.


@LOWERINGS.of("matmul")
def matmul(w: Writer, op: Operation) -> None:
    """Write a product of the valid rows and columns. 16-bit operands are multiplied in float32."""
    fn = TABLE[op.name].fn
    a, b = w.own(op, "a"), w.own(op, "b")
    for role in ("a", "b"):
        dtypes.torch_dtype(element(w, op, role))
    product = f"matmul({a}, {b})" if not _same_columns(w, op) else f"multiply({a}, {b})"
    rows, cols = w.valid_texts(op, "a")[0], w.valid_texts(op, "b")[1]
    if fn == "accumulate":
        product = f"{w.own(op, 'acc') if _result_is_static(w, op) else w.part(op, 'acc', rows, cols)} + {product}"
    elif fn == "bias":
        product = f"{product} + {w.part(op, 'bias', '1', cols)}"
    w.assign(op, product, kept=dtypes.name_of(element(w, op)) == "f32")


@LOWERINGS.of("matmul_mx")
def matmul_mx(w: Writer, op: Operation) -> None:
    """Write a product of elements that are scaled by powers of two, one for every 32 along k."""
    fn = TABLE[op.name].fn
    a, b = (f"{w.operand(op, role)}[:].float()" for role in ("a", "b"))
    dtypes.torch_dtype(element(w, op, "a"))
    dtypes.torch_dtype(element(w, op, "b"))
    scales = [
        f"{w.operand(op, role)}[:].float().repeat_interleave(32, dim={d})"
        for role, d in (("a_scale", 1), ("b_scale", 0))
    ]
    product = f"matmul({a} * {scales[0]}, {b} * {scales[1]})"
    if fn == "accumulate":
        product = f"{w.operand(op, 'acc')}[{w.operand(op, 'dst')}.valid] + {product}"
    elif fn == "bias":
        product = f"{product} + {w.operand(op, 'bias')}[1, {w.operand(op, 'b')}.valid[1]]"
    w.assign(op, product)


def _same_columns(w: Writer, op: Operation) -> bool:
    """Return whether a certainly has as many columns as b has rows."""
    a, b = w.resolved.extents(w.value(op, "a")), w.resolved.extents(w.value(op, "b"))
    return a[1] is not None and a[1] == b[0]


def _result_is_static(w: Writer, op: Operation) -> bool:
    a, b, acc = (w.resolved.extents(w.value(op, role)) for role in ("a", "b", "acc"))
    return None not in acc and (a[0], b[1]) == acc


# Transfers between ranks, signals and collectives to Python.
# A pointer into a window reaches the windows of other ranks if all of them lie in one tensor.


@LOWERINGS.of("comm:tput", "comm:tget")
def transfer(w: Writer, op: Operation) -> None:
    add = case_of(op.attrs.get("atomicType")) == "atomic_add"
    w.add(op, f"put({w.operand(op, 'dst')}, {w.operand(op, 'src')}{', add=True' if add else ''})")


@LOWERINGS.of("comm:notify")
def notify(w: Writer, op: Operation) -> None:
    add = case_of(op.attrs.get("notifyOp"), "set") == "atomic_add"
    w.add(op, f"notify({w.operand(op, 'signal')}, {w.operand(op, 'value')}, add={add})")


def _condition(w: Writer, op: Operation) -> str:
    return f'{w.operand(op, "signal")}, {w.operand(op, "value")}, "{case_of(op.attrs.get("cmp"), "eq")}"'


@LOWERINGS.of("comm:wait")
def wait(w: Writer, op: Operation) -> None:
    w.add(op, f"{'yield from wait_g' if w.is_generator else 'wait'}({_condition(w, op)})")


@LOWERINGS.of("comm:test")
def test(w: Writer, op: Operation) -> None:
    w.define(op, f"holds({_condition(w, op)})")


@LOWERINGS.of("comm:tbroadcast", "comm:tgather", "comm:tscatter", "comm:treduce")
def collective(w: Writer, op: Operation) -> None:
    name = {"tbroadcast": "broadcast", "tgather": "gather_ranks", "tscatter": "scatter_ranks"}.get(TABLE[op.name].fn)
    group = ", ".join(w.text(value) for value in w.resolved.values(op, "group"))
    operands = f"[{group}], {w.operand(op, 'data')}"
    if name is None:
        w.add(op, f'reduce_ranks({operands}, "{case_of(op.attrs.get("reduceOp"), "sum")}")')
    else:
        w.add(op, f"{name}({operands})")


@LOWERINGS.of("async:tput_async", "async:tget_async")
def start(w: Writer, op: Operation) -> None:
    """Write the whole transfer at once; a later wait for its event finds it complete. A missing wait is a fault of
    the kernel.
    """
    w.add(op, f"put({w.operand(op, 'dst')}, {w.operand(op, 'src')})")
    w.bind(w.resolved.results(op)[0], "None")


@LOWERINGS.of("async:wait_async_event", "async:test_async_event")
def finished(w: Writer, op: Operation) -> None:
    w.bind(w.resolved.results(op)[0], "True")


#: Operations that are an expression of their operands; and statements of them.
_EXPRESSIONS = {
    "arith_select": "{on_true} if {cond} else {on_false}",
    "core_id:block_idx": "_block[0]",
    "core_id:block_num": "_block[1]",
    "core_id:subblock_idx": "_current_sb[0]",
    "core_id:subblock_num": "_lanes[0]",
    "pointer:add": "{ptr} + {offset}",
    "scalar:load": "{ptr}[{index}]",
    "tile:address": "{tile}.address",
    "tile:slot": "{tiles}[{slot}]",
    "view:dim": "{view}.shape[{dim}]",
}
_STATEMENTS = {
    "element:set": "{tile}.flat[{offset}] = {value}",
    "scalar:store": "{ptr}[{index}] = {value}",
    "tile:set_valid": "{tile}.valid = ({row}, {col})",
}


def _written(w: Writer, op: Operation, forms: dict[str, str]) -> str:
    form = next(forms[key] for key in TABLE[op.name].keys if key in forms)
    return form.format(**{role: w.operand(op, role) for role in op.operands})


@LOWERINGS.of(*_EXPRESSIONS)
def expression(w: Writer, op: Operation) -> None:
    w.define(op, _written(w, op, _EXPRESSIONS))


@LOWERINGS.of(*_STATEMENTS)
def statement(w: Writer, op: Operation) -> None:
    w.add(op, _written(w, op, _STATEMENTS))


@LOWERINGS.of("async:context", "async:prefetch", "async:prefetch_session", "async:session")
@LOWERINGS.of("crosscore:set", "crosscore:wait", "fence", "none", "print")
def nothing(w: Writer, op: Operation) -> None:
    """Write nothing: the operation (ordering, prefetch, print or hint) does not change values."""
    for value in w.resolved.results(op):
        w.bind(value, "None")


@LOWERINGS.of("trap")
def trap(w: Writer, op: Operation) -> None:
    """Write an exception: the kernel ends itself."""
    w.add(op, 'raise RuntimeError("the kernel ended itself (pto.trap)")')


def find_lowering(op: Operation) -> Lower | None:
    """Return the translation of an operation; None if it has none."""
    definition = TABLE.get(op.name)
    return LOWERINGS.find(definition) if definition else None
