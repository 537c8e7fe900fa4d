"""Numbers of a kernel as `arith` operations."""

from __future__ import annotations

from .dtypes import DType
from .errors import CompileError
from .ir import Op
from .operations import COMPARISONS
from .pto_text import Text
from .values import Const, Values

_INTEGER = {
    "add": "addi", "sub": "subi", "mul": "muli", "floordiv": "divsi", "mod": "remsi", "min": "minsi", "max": "maxsi",
    "bitwise_and": "andi", "bitwise_or": "ori", "shl": "shli", "shr": "shrsi", "and": "andi", "or": "ori",
}  # fmt: skip
_FLOAT = {"add": "addf", "sub": "subf", "mul": "mulf", "div": "divf", "min": "minimumf", "max": "maximumf"}


def scalar_op(text: Text, op: Op, values: Values) -> None:
    """`s.<name>` operations; `attrs["dtype"]` is the element type they compute in."""
    name, dtype = op.name[2:], op.dtype
    if name == "cast":
        text.add(f"{text.define(op.result)} = {_cast(text, op, values, dtype)}")
        return
    if name == "select":
        condition = text.value(op.args[0], "i1")
        a, b = (text.value(x, dtype) for x in op.args[1:])
        text.add(f"{text.define(op.result)} = arith.select {condition}, {a}, {b} : {dtype.pto}")
        return
    args = [text.value(a, dtype) for a in op.args]
    if name in COMPARISONS:
        kind = "cmpf" if dtype.is_float else "cmpi"
        word = (
            ("une" if name == "ne" else "o" + name) if dtype.is_float else name if name in ("eq", "ne") else "s" + name
        )
        text.add(f"{text.define(op.result)} = arith.{kind} {word}, {args[0]}, {args[1]} : {dtype.pto}")
    elif name == "neg":
        line = f"arith.negf {args[0]}" if dtype.is_float else f"arith.subi {text.constant(0, dtype)}, {args[0]}"
        text.add(f"{text.define(op.result)} = {line} : {dtype.pto}")
    elif name == "not":
        text.add(f"{text.define(op.result)} = arith.xori {args[0]}, {text.constant(True, 'i1')} : i1")
    else:
        table = _FLOAT if dtype.is_float else _INTEGER
        if name not in table:
            raise CompileError(op.position, f"{name} is not available for {dtype}")
        text.add(f"{text.define(op.result)} = arith.{table[name]} {args[0]}, {args[1]} : {dtype.pto}")


def _cast(text: Text, op: Op, values: Values, to: DType) -> str:
    if isinstance(op.args[0], Const):
        raise CompileError(op.position, "a constant is converted when compiling")
    source = op.ref(0)
    value, a, b = text.value(source), values.scalar(source.name).dtype, to
    if a == b:
        return f"arith.addi {value}, {text.constant(0, a)} : {a.pto}"
    if a.is_float and b.is_float:
        name = "extf" if a.size < b.size else "truncf"
    elif a.is_float:
        name = "fptosi"
    elif b.is_float:
        if a.name == "INDEX":
            held = text.fresh()
            text.add(f"{held} = arith.index_cast {value} : index to i64")
            return f"arith.sitofp {held} : i64 to {b.pto}"
        name = "uitofp" if a.name == "BOOL" else "sitofp"
    elif "INDEX" in (a.name, b.name):
        name = "index_cast"
    elif a.name == "BOOL":
        name = "extui"
    else:
        name = "extsi" if a.size < b.size else "trunci"
    return f"arith.{name} {value} : {a.pto} to {b.pto}"
