"""Numbers of an orchestration as C++ expressions."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from pypto_build.pto.cpp.emitter import KEYWORDS

from .errors import CompileError
from .ir import Op, Operand, ScalarType, Type
from .operations import INFIX

_INFIX = INFIX | {"floordiv": "/", "and": "&&", "or": "||"}
_OTHERS = {
    "min": "std::min<{type}>({0}, {1})", "max": "std::max<{type}>({0}, {1})", "neg": "(-{0})", "not": "(!{0})",
    "select": "({0} ? {1} : {2})",
}  # fmt: skip
#: Words that cannot name a kernel or a variable of an orchestration.
RESERVED = KEYWORDS | {"half", "main"}


def literal(value: int | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return float_literal(value)


def float_literal(value: float) -> str:
    """Return the shortest decimal literal that is the same float: `1.0f`, `0.1f`, `1e-06f`."""
    single = struct.unpack("<f", struct.pack("<f", value))[0]
    text = next(
        t
        for digits in range(1, 18)
        if struct.pack("<f", float(t := f"{value:.{digits}g}")) == struct.pack("<f", single)
    )
    return f"{text if any(c in text for c in '.en') else text + '.0'}f"


def scalar_text(op: Op, expression: Callable[[Operand], str], types: Mapping[str, Type]) -> str:
    """Return the C++ expression of an `s.<name>` operation."""
    name, dtype = op.name[2:], op.attrs["dtype"]
    args = [expression(a) for a in op.args]
    if name in _INFIX:
        return args[0] if (name, args[1]) == ("add", "0") else f"({args[0]} {_INFIX[name]} {args[1]})"
    if name in _OTHERS:
        return _OTHERS[name].format(*args, type=dtype.cpp)
    if name == "cast":
        source = types.get(getattr(op.args[0], "name", ""))
        same = isinstance(source, ScalarType) and source.dtype.cpp == dtype.cpp
        return args[0] if same else f"static_cast<{dtype.cpp}>({args[0]})"
    raise CompileError(op.position, f"{name} is not available in an orchestration")
