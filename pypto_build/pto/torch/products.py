"""Products of matrices to Python."""

from __future__ import annotations

from ..model import Operation
from ..ops import TABLE
from . import dtypes
from .elementwise import element
from .writer import LOWERINGS, Writer


@LOWERINGS.of("matmul")
def matmul(w: Writer, op: Operation) -> None:
    """Rows and columns of a, columns of b as they are valid. 16-bit operands are multiplied in float32."""
    fn = TABLE[op.name].fn
    a, b = w.own(op, "a"), w.own(op, "b")
    for role in ("a", "b"):
        dtypes.torch_dtype(element(w, op, role))
    product = f"matmul({a}, {b})" if not _same_columns(w, op) else f"multiply({a}, {b})"
    rows, cols = w.valid_texts(op, "a")[0], w.valid_texts(op, "b")[1]
    if fn == "accumulate":
        product = f"{w.own(op, 'acc') if _result_known(w, op) else w.part(op, 'acc', rows, cols)} + {product}"
    elif fn == "bias":
        product = f"{product} + {w.part(op, 'bias', '1', cols)}"
    w.assign(op, product, kept=dtypes.name_of(element(w, op)) == "f32")


@LOWERINGS.of("matmul_mx")
def matmul_mx(w: Writer, op: Operation) -> None:
    """The product of elements that a power of two scales, one for every 32 along k."""
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
    """Return whether the columns of a are certainly the rows of b."""
    a, b = w.resolved.extents(w.value(op, "a")), w.resolved.extents(w.value(op, "b"))
    return a[1] is not None and a[1] == b[0]


def _result_known(w: Writer, op: Operation) -> bool:
    a, b, acc = (w.resolved.extents(w.value(op, role)) for role in ("a", "b", "acc"))
    return None not in acc and (a[0], b[1]) == acc
