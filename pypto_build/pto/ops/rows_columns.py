"""Operations of the vector core along rows and columns.

These are reductions, broadcasts of their results, and functions of two tiles that are valid in different parts.
"""

from __future__ import annotations

from .elementwise import ALL, PLAIN_NUMBERS, PRECISION, ROWS, WORDS, V
from .functions import ADD, DIV, EXPDIF, MAX, MAX_OF, MIN, MIN_OF, MUL, PROD, SUB, SUM
from .instruction import FLOATS, NUMBERS, PLAIN, ROW_MAJOR, Instruction
from .spec import define

P = "tile@vec~plain"

# function, rank along rows and columns, its result in words, element types along columns, scratch along rows
_REDUCTIONS = (
    (SUM, ("must", "should"), "the sum", f"{WORDS} | {ALL}", ""),
    (PROD, ("rest", "rest"), "the product", f"{WORDS} | i16 i32 f16 bf16 f32", "like(src)"),
    (MAX_OF, ("must", "should"), "the max", f"{WORDS} | {ALL}", "like(src)"),
    (MIN_OF, ("should", "should"), "the min", f"{WORDS} | {ALL}", "like(src)"),
)
# function, its result in words, element types
_EXPANSIONS = (
    (ADD, "src0 + src1", f"{WORDS} | {PLAIN_NUMBERS}"), (SUB, "src0 - src1", f"{WORDS} | {PLAIN_NUMBERS}"),
    (MUL, "src0 * src1", f"{WORDS} | {PLAIN_NUMBERS}"), (DIV, "src0 / src1", f"f16 f32 | {PLAIN_NUMBERS}"),
    (MAX, "max(src0, src1)", f"{WORDS} | {PLAIN_NUMBERS}"), (MIN, "min(src0, src1)", f"{WORDS} | {PLAIN_NUMBERS}"),
    (EXPDIF, "exp(src0 - src1)", "f16 f32"),
)  # fmt: skip
_MUST = ("trowexpandmul", "trowexpanddiv", "trowexpandsub", "tcolexpandmul")
_EXPAND_SCRATCH = {"div": "with_high_precision", "max": "like(dst)", "min": "like(dst)", "expdif": "like(dst)"}

for _axis, _line in (("row", "row"), ("col", "column")):
    _by_row = _axis == "row"
    for _reduction, _ranks, _does, _elements, _scratch in _REDUCTIONS:
        _name, _binary = f"t{_axis}{_reduction.name}", _axis == "col" and _reduction is SUM
        define(
            f"pto.{_name}", f"src:{P} tmp?:{V}=s", f"dst:{V if _by_row else P}",
            attrs="isBinary=bool" if _binary else "", inner="isBinary" if _binary else "",
            rules=f"{_axis}reduce", elements=WORDS if _by_row else _elements,
            scratch=_scratch if _by_row else "with_binary like(src) as_wide_as_valid(src)" if _binary else "",
            family=f"{_axis}reduce", computes=_reduction, cpp=_name.upper(), core="vector",
            runs=Instruction(
                _ranks[not _by_row], f"{_does} of each {_line}; 16-bit floats add up in f32", NUMBERS, layouts=PLAIN,
                group="reduction", forms=("dst, src, tmp" if _by_row else "dst, src",),
            ),
        )  # fmt: skip
    for _fn, _does in (("argmax", "max"), ("argmin", "min")):
        define(
            f"pto.t{_axis}{_fn}", f"src:{P} tmp?:{V}=s",
            (f"dst:{V if _by_row else P}", f"dst:{V if _by_row else P} dstidx:{V}"),
            rules=f"{_axis}arg {'positions' if _by_row else ''} something_valid({_axis})",
            scratch=f"a2a3:like(src) a2a3:partial_positions({_axis})", elements=WORDS if _by_row else ALL,
            family=f"{_axis}reduce", fn=_fn, cpp=f"T{_axis}{_fn}".upper(), core="vector",
            runs=Instruction(
                "should" if _by_row else "rest", f"where in each {_line} the {_does} is first, and what it is", NUMBERS,
                types="numbers; positions: i32 or u32", layouts=PLAIN, writes=("positions", "values"),
                group="reduction", forms=("positions, src, tmp", "values, positions, src, tmp"),
            ),
        )  # fmt: skip
    define(
        f"pto.t{_axis}expand", f"src:{V if _by_row else P}", f"dst:{P}", rules="dtype", elements=ALL,
        family=f"{_axis}expand", fn="copy", cpp=f"T{_axis}EXPAND".upper(), core="vector",
        runs=Instruction(
            "should", f"the value of each {_line}, all over it", NUMBERS, group="expansion", layouts=ROW_MAJOR
        ),
    )  # fmt: skip
    for _function, _does, _elements in _EXPANSIONS:
        _name = f"t{_axis}expand{_function.name}"
        _wide = V if _by_row and _function is not ADD else ROWS
        _narrow = "one source has a value a row" if _by_row else "src1 is a row"
        define(
            f"pto.{_name}", f"src0:{_wide} src1:{V}{f' tmp?:{V}=s' if _by_row else ''}", f"dst:{ROWS}",
            attrs=f"src1Col=int src0eqdst=bool highPrecision=bool {PRECISION}", rules=f"{_axis}expand",
            scratch=_EXPAND_SCRATCH.get(_function.name, "") if _by_row else "", elements=_elements,
            family=f"{_axis}expand", computes=_function, cpp=_name.upper(), core="vector",
            runs=Instruction(
                "must" if _name in _MUST else "should", f"dst = {_does}; {_narrow}",
                FLOATS if _function is EXPDIF else NUMBERS, group="expansion", layouts=ROW_MAJOR,
            ),
        )  # fmt: skip

# where both operands are valid the function, where one is, its value
for _function, _does in ((ADD, "sum"), (MUL, "product"), (MAX, "max"), (MIN, "min")):
    define(
        f"pto.tpart{_function.name}", f"src0:{V} src1:{V}", f"dst:{V}", rules="dtype", elements=f"{WORDS} | {ALL}",
        family="partial", computes=_function, cpp=f"TPART{_function.name.upper()}", core="vector",
        runs=Instruction(
            "rest", f"the {_does} where both sources are valid, a copy where one is", NUMBERS, group="partial",
            layouts=ROW_MAJOR,
        ),
    )  # fmt: skip
for _fn in ("max", "min"):
    define(
        f"pto.tpartarg{_fn}", f"src0:{V} src1:{V} idx0:{V} idx1:{V}", f"dst:{V} dstidx:{V}",
        elements=f"{WORDS} | {ALL}", family="partialarg", fn=_fn, cpp=f"TPARTARG{_fn.upper()}", core="vector",
        runs=Instruction(
            "rest", "the value and the position taken with it", NUMBERS, types="numbers; positions: i32 or u32",
            writes=("dst", "positions"), group="partial", forms=("dst, src0, src1, positions, index0, index1",),
        ),
    )  # fmt: skip
