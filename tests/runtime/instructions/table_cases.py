"""Cases for all instructions of the table, which any of their element types, layouts and valid regions can run.

Operands are matrices of small integers, on which results are exact. A model changes the operands as the instruction
does; it gets them as numbers, and the extents of the valid region.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from pypto_build.pto.ops import INSTRUCTIONS, OpDef
from pypto_build.pto.torch.helpers import arithmetic
from tests.pto.rows import ON_ELEMENTS
from tests.runtime.instructions.tile_harness import Array, Tile, decode, encode, size_of

ROWS, COLS = 32, 32
REGIONS = ((ROWS, COLS), (7, 19), (0, 3), (3, 0))
SCALAR = 3
LAYOUTS = {"row-major": "ND", "column-major": "DN", "fractal": "NZ"}
#: Bytes between operands in vector memory.
STRIDE = 32768


class Operands(dict[str, Array]):
    """The operands of a case as numbers, by name, and the element type of the case."""

    def __init__(self, dtype: str, operands: dict[str, Array]) -> None:
        super().__init__(operands)
        self.dtype = dtype


Model = Callable[[Operands, int, int], None]


@dataclass(frozen=True)
class Operand:
    """A tile, or a matrix in global memory. ``dtype`` and ``layout`` are those of the case where they are empty, and
    ``records`` says that a column is one of the records that are sorted, of eight bytes."""

    name: str
    dtype: str = ""
    rows: int = ROWS
    cols: int = COLS
    layout: str = ""
    valid: tuple[str, str] = ("v[0]", "v[1]")
    values: Callable[[str], Array] | None = None
    is_global: bool = False
    records: bool = False
    pad: str = "Null"

    def tile(self, dtype: str, layout: str) -> Tile:
        own = self.dtype or dtype
        cols = self.cols * 8 // size_of(own) if self.records else self.cols
        return Tile(own, self.rows, cols, self.layout or LAYOUTS[layout], pad=self.pad)


@dataclass(frozen=True)
class Case:
    """The call of an instruction on operands, and what becomes of them; ``tolerance`` in units of the last place of the
    results, which are exact where it is zero."""

    call: str
    operands: tuple[Operand, ...]
    model: Model
    tolerance: float = 0.0


@cache
def numbers(dtype: str, seed: int) -> Array:
    """Small integers; those of seed 2 are positive, so that they divide and shift."""
    low = 1 if seed == 2 else 0 if dtype[0] in "ue" else -4
    return encode(np.random.default_rng(seed).integers(low, 5, (ROWS, COLS)), dtype)


def tile(name: str, seed: int = 1, rows: int = ROWS, cols: int = COLS, **options: Any) -> Operand:
    """A tile of small integers."""
    return Operand(name, rows=rows, cols=cols, values=lambda dtype: numbers(dtype, seed)[:rows, :cols], **options)


def of(name: str, values: Array, dtype: str, **options: Any) -> Operand:
    """A tile of given values and of its own element type."""
    rows, cols = values.shape
    return Operand(name, dtype, rows, cols, values=lambda _: encode(values, dtype), **options)


def region(function: Callable[[Operands], Array], target: str = "d") -> Model:
    """The model of an instruction that computes element by element."""

    def model(t: Operands, h: int, w: int) -> None:
        t[target][:h, :w] = function(t)[:h, :w]

    return model


def divide(a: Array, b: Array) -> Array:
    return a / b if a.dtype == np.float64 else np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)


def relu(x: Array, dtype: str) -> Array:
    """Return the numbers, wrapped where results wrap, with negative ones made zero."""
    wrapped = decode(encode(x, dtype), dtype)
    return wrapped if dtype.startswith("u") else np.maximum(wrapped, 0)


A, B, C, D = tile("a", 1), tile("b", 2), tile("c", 3), tile("d", 4)
ROW = tile("r", 2, rows=1, layout="ND", valid=("1", "v[1]"))
COLUMN = tile("k", 2, cols=1, layout="DN", valid=("v[0]", "1"))


# What follows dst in the call, and what dst becomes.
_ELEMENTWISE: dict[str, tuple[str, Callable[[Array, Array, Array, Array], Array]]] = {
    "TADD": ("a, b", lambda d, a, b, c: a + b),
    "TSUB": ("a, b", lambda d, a, b, c: a - b),
    "TMUL": ("a, b", lambda d, a, b, c: a * b),
    "TDIV": ("a, b", lambda d, a, b, c: divide(a, b)),
    "TMAX": ("a, b", lambda d, a, b, c: np.maximum(a, b)),
    "TMIN": ("a, b", lambda d, a, b, c: np.minimum(a, b)),
    "TAND": ("a, b", lambda d, a, b, c: a & b),
    "TOR": ("a, b", lambda d, a, b, c: a | b),
    "TXOR": ("a, b, c", lambda d, a, b, c: a ^ b),
    "TSHL": ("a, b", lambda d, a, b, c: a << b),
    "TSHR": ("a, b", lambda d, a, b, c: a >> b),
    "TPRELU": ("a, b, c", lambda d, a, b, c: np.where(a > 0, a, a * b)),
    "TREM": ("a, b, c", lambda d, a, b, c: np.mod(a, b)),
    "TFMOD": ("a, b", lambda d, a, b, c: np.fmod(a, b)),
    "TPOW": ("a, b, c", lambda d, a, b, c: a**b),
    "TADDS": ("a, s", lambda d, a, b, c: a + SCALAR),
    "TSUBS": ("a, s", lambda d, a, b, c: a - SCALAR),
    "TMULS": ("a, s", lambda d, a, b, c: a * SCALAR),
    "TDIVS": ("a, s", lambda d, a, b, c: divide(a, np.full_like(a, SCALAR))),
    "TDIVS reversed": ("s, b", lambda d, a, b, c: divide(np.full_like(a, SCALAR), b)),
    "TMAXS": ("a, s", lambda d, a, b, c: np.maximum(a, SCALAR)),
    "TMINS": ("a, s", lambda d, a, b, c: np.minimum(a, SCALAR)),
    "TANDS": ("a, s", lambda d, a, b, c: a & SCALAR),
    "TORS": ("a, s", lambda d, a, b, c: a | SCALAR),
    "TXORS": ("a, s, c", lambda d, a, b, c: a ^ SCALAR),
    "TSHLS": ("a, s", lambda d, a, b, c: a << SCALAR),
    "TSHRS": ("a, s", lambda d, a, b, c: a >> SCALAR),
    "TLRELU": ("a, s", lambda d, a, b, c: np.where(a > 0, a, a * SCALAR)),
    "TREMS": ("a, s, c", lambda d, a, b, c: np.mod(a, SCALAR)),
    "TFMODS": ("a, s", lambda d, a, b, c: np.fmod(a, SCALAR)),
    "TPOWS": ("a, s, c", lambda d, a, b, c: a**SCALAR),
    "TEXPANDS": ("s", lambda d, a, b, c: np.full_like(a, SCALAR)),
    "TNEG": ("a", lambda d, a, b, c: -a),
    "TABS": ("a", lambda d, a, b, c: np.abs(a)),
    "TNOT": ("a", lambda d, a, b, c: ~a),
    "TADDC": ("a, b, c", lambda d, a, b, c: a + b + c),
    "TSUBC": ("a, b, c", lambda d, a, b, c: a - b + c),
    "TADDSC": ("a, s, c", lambda d, a, b, c: a + SCALAR + c),
    "TSUBSC": ("a, s, c", lambda d, a, b, c: a - SCALAR + c),
    "TAXPY": ("a, s", lambda d, a, b, c: d + SCALAR * a),
    "TFUSEDMULADD": ("a, b", lambda d, a, b, c: a * d + b),
    "TMULADDDST": ("a, b", lambda d, a, b, c: a * b + d),
    "TEXP": ("a", lambda d, a, b, c: np.exp(a)),
    "TLOG": ("b", lambda d, a, b, c: np.log(b)),
    "TSQRT": ("b", lambda d, a, b, c: np.sqrt(b)),
    "TRSQRT": ("b", lambda d, a, b, c: 1 / np.sqrt(b)),
    "TRECIP": ("b", lambda d, a, b, c: divide(np.ones_like(b), b)),
}
# The same with what is below zero made zero.
_RELU: dict[str, tuple[str, Callable[[Array, Array, Array, Array], Array]]] = {
    "TRELU": ("a", lambda d, a, b, c: a),
    "TADDRELU": ("a, b", lambda d, a, b, c: a + b),
    "TSUBRELU": ("a, b", lambda d, a, b, c: a - b),
    "TFUSEDMULADDRELU": ("a, b", lambda d, a, b, c: a * d + b),
}
_ROUNDED = ("TEXP", "TLOG", "TRSQRT")


def _elementwise(name: str, rest: str, function: Callable[[Array, Array, Array, Array], Array]) -> Case:
    operands = tuple(x for x in (A, B, C) if x.name in rest.split(", "))
    nothing = np.zeros((ROWS, COLS))

    def model(t: Operands, h: int, w: int) -> None:
        result = function(*(t.get(operand, nothing) for operand in "dabc"))
        t["d"][:h, :w] = (relu(result, t.dtype) if name in _RELU else result)[:h, :w]

    return Case(f"{name.split()[0]}(d, {rest});", (D, *operands), model, 2.0 if name in _ROUNDED else 0.0)


REDUCTIONS: dict[str, Callable[..., Array]] = {"SUM": np.sum, "PROD": np.prod, "MAX": np.max, "MIN": np.min}
PAIRS: dict[str, Callable[[Array, Array], Array]] = {
    "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "DIV": divide, "MAX": np.maximum, "MIN": np.minimum,
    "EXPDIF": lambda a, b: np.exp(a - b),
}  # fmt: skip


def _along(axis: str, function: Callable[..., Array], *targets: str, source: str = "a", picks: bool = False) -> Model:
    """A value of each row, or column, of the source; of an empty region nothing."""

    def model(t: Operands, h: int, w: int) -> None:
        if h == 0 or w == 0:
            return
        matrix, dim = t[source][:h, :w], 1 if axis == "ROW" else 0
        line = function(matrix, axis=dim)
        results = [line]
        if picks:
            results.append(np.take_along_axis(matrix, np.expand_dims(line, dim), dim).reshape(-1))
        for target, result in zip(targets, results, strict=False):
            if axis == "ROW":
                t[target][:h, 0] = result
            else:
                t[target][0, :w] = result

    return model


def _reductions() -> dict[str, Case]:
    cases = {}
    # few of the factors of a product are not one, so that it stays in the range of every type
    factors = Operand("f", values=lambda dtype: encode(np.where(np.eye(ROWS, COLS) > 0, 2, 1), dtype))
    for axis, target in (("ROW", COLUMN), ("COL", ROW)):
        line, tmp = target.name, ", a" if axis == "ROW" else ""
        for op, function in REDUCTIONS.items():
            source = factors if op == "PROD" else B
            cases[f"T{axis}{op}"] = Case(
                f"T{axis}{op}({line}, {source.name}{tmp});",
                (target, source, A),
                _along(axis, function, line, source=source.name),
            )
        at = of("i", np.full((target.rows, target.cols), 7), "i32", layout=target.layout, valid=target.valid)
        for op, pick in (("ARGMAX", np.argmax), ("ARGMIN", np.argmin)):
            name = f"T{axis}{op}"
            cases[name] = Case(f"{name}({line}, i, a, a);", (target, at, A), _along(axis, pick, "i", line, picks=True))
            cases[f"{name} positions"] = Case(f"{name}(i, a, a);", (at, A), _along(axis, pick, "i"))
    return cases


def _expanding(function: Callable[[Array, Array], Array], line: str) -> Model:
    return region(lambda t: function(t.get("a", t["d"]), np.broadcast_to(t[line], (ROWS, COLS))))


def _expansions() -> dict[str, Case]:
    cases = {}
    for axis, narrow in (("ROW", COLUMN), ("COL", ROW)):
        line = narrow.name
        cases[f"T{axis}EXPAND"] = Case(f"T{axis}EXPAND(d, {line});", (D, narrow), _expanding(lambda a, b: b, line))
        for op, function in PAIRS.items():
            name, tolerance = f"T{axis}EXPAND{op}", 2.0 if op == "EXPDIF" else 0.0
            cases[name] = Case(f"{name}(d, a, {line});", (D, A, narrow), _expanding(function, line), tolerance)
    return cases


def _partial() -> dict[str, Case]:
    whole = tile("a", 1, valid=(str(ROWS), str(COLS)))
    target = tile("d", 4, valid=(str(ROWS), str(COLS)))
    functions = {"ADD": np.add, "MUL": np.multiply, "MAX": np.maximum, "MIN": np.minimum}
    cases = {}
    for op, function in functions.items():

        def model(t: Operands, h: int, w: int, function: Callable[[Array, Array], Array] = function) -> None:
            t["d"][:] = t["a"]
            t["d"][:h, :w] = function(t["a"], t["b"])[:h, :w]

        cases[f"TPART{op}"] = Case(f"TPART{op}(d, a, b);", (target, whole, B), model)
    everywhere = (str(ROWS), str(COLS))
    positions = tuple(
        of(name, np.full((ROWS, COLS), value), "i32", valid=everywhere)
        for name, value in (("p", 0), ("x", 100), ("y", 200))
    )
    for op, first in (("ARGMAX", np.greater), ("ARGMIN", np.less)):

        def choose(t: Operands, h: int, w: int, first: Callable[[Array, Array], Array] = first) -> None:
            of_b = np.zeros((ROWS, COLS), bool)
            of_b[:h, :w] = first(t["b"], t["a"])[:h, :w]
            t["d"][:], t["p"][:] = np.where(of_b, t["b"], t["a"]), np.where(of_b, 200, 100)

        cases[f"TPART{op}"] = Case(f"TPART{op}(d, a, b, p, x, y);", (target, whole, B, *positions), choose)
    return cases


_OPERANDS = {"dst": "d", "src": "a", "src0": "a", "src1": "b", "src2": "c", "scalar": "s"}
_TORCH = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def case_of_row(row: OpDef) -> Case:
    """An instruction that computes what the row of its operation says in PyTorch: for rows without a case of their
    own."""
    form = [_OPERANDS[name] for name in INSTRUCTIONS[row.cpp].forms[0].split(", ")]
    form = ["d", "b"] if form == ["d", "a"] else form  # positive numbers, which have roots and logarithms
    operands = tuple(operand for operand in (D, A, B, C) if operand.name in form)
    first, *rest = form[1:]
    names = {"d": "d", "a": first, "b": (rest or [""])[0], "c": rest[-1] if rest else ""}

    def model(t: Operands, h: int, w: int) -> None:
        is_float = t.dtype in _TORCH
        values = {name: torch.from_numpy(x).to(_TORCH.get(t.dtype, torch.int64)) for name, x in t.items()}
        text = row.meaning.expression(is_float=is_float, number=form[-1] == "s")
        text = text.format(**names, bits=8 * size_of(t.dtype))
        result = eval(text, vars(arithmetic) | values | {"s": SCALAR})
        t["d"][:h, :w] = result.to(torch.float64 if is_float else torch.int64).numpy()[:h, :w]

    return Case(f"{row.cpp}({', '.join(form)});", operands, model, 2.0)


def arithmetic_cases() -> dict[str, Case]:
    """Instructions that compute; a name with a word behind it is another form of the instruction."""
    cases = {name: _elementwise(name, *words) for name, words in (_ELEMENTWISE | _RELU).items()}
    made = {row.cpp: case_of_row(row) for row in ON_ELEMENTS.values() if row.cpp not in cases}
    return cases | made | _reductions() | _expansions() | _partial()
