"""Constraints of a device on the operands of its instructions, beyond the rows of the operations themselves.

A line is one constraint (constraints.py), bound to its operations:

    kind | platform (or both) | expression | upstream's source | effect of a violation

`TABLE` has the roles that the expressions name. From these lines follow the check of modules and of kernels' C++, the
compiler's choice of addresses and scratch, the documentation, and a planted violation of each as a test.
"""

from __future__ import annotations

from functools import cache

from .constraints import Constraint, parse_constraints

_BOUND: dict[str, list[str]] = {}


def bind(names: str, rows: str) -> None:
    """Add rows to operations, which are named without `pto.`."""
    for name in names.split():
        _BOUND.setdefault(f"pto.{name}", []).append(rows)


@cache
def constraints(name: str) -> tuple[Constraint, ...]:
    """Return the rows of one operation."""
    return tuple(one for rows in _BOUND.get(name, ()) for one in parse_constraints(rows))


def constrained() -> list[str]:
    """Return the operations that have rows."""
    return list(_BOUND)


# --- operations of elements ------------------------------------------------------------------------------------------

_TILES = "tadd tsub tmul tdiv tmax tmin tand tor txor tshl tshr tprelu trem tfmod tpow"
_NUMBER = "tadds tsubs tmuls tmaxs tmins tdivs tands tors txors tshls tshrs tlrelu trems tfmods tpows"
_ONE = "texp tlog tsqrt trsqrt trecip tneg tabs trelu tnot"

bind(
    _TILES,
    """
overlap | both | same_or_apart(dst, src0) | reading | repeats of 256 bytes overlap in time, and read what was written
overlap | both | same_or_apart(dst, src1) | reading | repeats of 256 bytes overlap in time, and read what was written
layout | both | blayout(src0) == row_major and blayout(src1) == row_major and blayout(dst) == row_major | header verifier | the instruction goes along rows
valid_shape | both | valid(src0) == valid(dst) and valid(src1) == valid(dst) | assert verifier | the extents of dst alone are used
same_type | both | elem(src0) == elem(dst) and elem(src1) == elem(dst) | header verifier | the headers refuse it
""",
)
bind(
    f"{_NUMBER} {_ONE}",
    """
overlap | both | same_or_apart(dst, src) | reading | repeats of 256 bytes overlap in time, and read what was written
valid_shape | both | valid(src) == valid(dst) | assert verifier | the extents of dst alone are used
same_type | both | elem(src) == elem(dst) | header verifier | the headers refuse it
""",
)
bind(
    "tands tors txors tfmods trems tpows tshrs taxpy texp tlog tsqrt trsqrt trecip tabs trelu tnot",
    """
layout | both | blayout(src) == row_major and blayout(dst) == row_major | header verifier | the instruction goes along rows
""",
)
bind(
    _NUMBER,
    """
same_type | both | width_of(scalar) == width(src) | verifier | the parameter of the C++ has the type of the elements
""",
)
bind(
    "tfmod",
    """
overlap | both | apart(dst, src0) and apart(dst, src1) | reuse | the quotient is written over dst while both are read
""",
)
bind(
    "tfmods tands tors txors",
    """
overlap | both | apart(dst, src) | reuse assert | dst is filled with the scalar before src is read
""",
)
bind(
    "trecip",
    """
overlap | both | apart(dst, src) | docs verifier reuse | dst is filled with ones before src is read: on a2a3 the result is 1.0 everywhere
""",
)
bind(
    "trsqrt",
    """
overlap | both | apart(dst, src) and apart(dst, tmp) | reuse | dst is written before src is read
overlap | a2a3 | apart(tmp, src) | reading | tmp is written before src is read
scratch_size | both | bytes(tmp) >= 32 | verifier | it holds a block of ones
""",
)
bind(
    "tdivs",
    """
overlap | a2a3 | width(src) in (i16, i32) => apart(dst, src) | reading | the scalar is spread over dst before src is read
overlap | a2a3 | precedes(scalar, src) => apart(dst, src) | reading | the scalar is spread over dst before src is read: the result is 1 everywhere
""",
)
bind(
    "tprelu",
    """
overlap | both | apart(dst, src0) and apart(dst, src1) | docs verifier reuse codegen | dst is written before both are read
overlap | a2a3 | apart(dst, tmp) and apart(tmp, src0) and apart(tmp, src1) and apart(src0, src1) | docs verifier | tmp holds the mask of negative elements
scratch_type | a2a3 | width(tmp) == i8 | header verifier | it holds a bit an element
scratch_size | a2a3 | rows(tmp) >= valid_rows(dst) + 1 and valid_cols(tmp) >= ceil(valid_cols(dst), 8) | verifier | the mask is written past it
layout | a2a3 | blayout(tmp) == row_major | header | the mask is written along rows
""",
)
bind(
    "txor",
    """
overlap | a2a3 | apart(dst, src0) and apart(dst, src1) and apart(dst, tmp) and apart(src0, tmp) and apart(src1, tmp) | assert | tmp and dst are written before both are read
scratch_type | a2a3 | elem(tmp) == elem(dst) | header verifier | the headers refuse it
scratch_size | a2a3 | valid(tmp) == valid(dst) | assert verifier | tmp holds as much as dst
layout | a2a3 | blayout(tmp) == row_major | header verifier | the instruction goes along rows
""",
)
bind(
    "txors",
    """
overlap | a2a3 | apart(dst, tmp) and apart(src, tmp) | assert | tmp is written before src is read
scratch_type | a2a3 | elem(tmp) == elem(dst) | verifier | the headers refuse it
scratch_size | a2a3 | valid(tmp) == valid(dst) | docs | tmp holds as much as dst
""",
)
bind(
    "trem",
    """
overlap | a2a3 | apart(tmp, src0) and apart(tmp, src1) and apart(tmp, dst) | reading | tmp holds the quotient
overlap | a2a3 | width(src0) == i32 => apart(src0, src1) | reading | both are converted to float where they lie
scratch_type | a2a3 | elem(tmp) == elem(dst) | verifier | the headers refuse it
scratch_size | a2a3 | valid_rows(tmp) >= 2 and valid_cols(tmp) >= valid_cols(dst) | verifier | the quotient is written past it
""",
)
bind(
    "trems",
    """
overlap | a2a3 | apart(tmp, src) and apart(tmp, dst) | reading | tmp holds the quotient
scratch_type | a2a3 | elem(tmp) == elem(dst) | verifier | the headers refuse it
scratch_size | a2a3 | valid_rows(tmp) >= 1 and valid_cols(tmp) >= valid_cols(dst) | assert verifier | the quotient is written past it
""",
)
bind(
    "tpow",
    """
overlap | a2a3 | apart(dst, tmp) and apart(tmp, src0) and apart(tmp, src1) | reading | tmp holds the logarithm
""",
)
bind(
    "tpow tpows",
    """
scratch_size | both | elem(dst) in (f16, bf16, f32) => present(tmp) | assert verifier | the logarithm has no place to lie in
scratch_size | both | elem(dst) not in (f16, bf16, f32) => not present(tmp) | assert verifier | integers take no scratch
scratch_size | both | valid(tmp) == valid(dst) | assert verifier | tmp holds as much as dst
attribute | a2a3 | attr(precisionType) != high_precision | verifier | a2a3 has no such algorithm
element_type | a5 | attr(precisionType) == high_precision => elem(dst) in (f16, bf16, f32) | verifier | the algorithm is for floats
""",
)
bind(
    "trsqrt",
    """
attribute | both | attr(precisionType) == high_precision => present(tmp) | verifier | the algorithm needs scratch
""",
)
bind(
    "tshls tshrs",
    """
scalar_range | both | scalar(scalar) >= 0 | verifier docs | a negative distance is undefined
""",
)
bind(
    "taddc tsubc",
    """
overlap | both | apart(dst, src2) | reading | the first of its two instructions writes dst before src2 is read
valid_shape | both | valid(src0) == valid(dst) and valid(src1) == valid(dst) and valid(src2) == valid(dst) | verifier | the extents of dst alone are used
same_type | both | elem(src0) == elem(dst) and elem(src1) == elem(dst) and elem(src2) == elem(dst) | verifier | the headers refuse it
""",
)
bind(
    "taddsc tsubsc",
    """
overlap | both | apart(dst, src1) | reading | the first of its two instructions writes dst before src1 is read
valid_shape | both | valid(src0) == valid(dst) and valid(src1) == valid(dst) | verifier | the extents of dst alone are used
same_type | both | elem(src0) == elem(dst) and elem(src1) == elem(dst) | verifier | the headers refuse it
""",
)
bind(
    "taxpy",
    """
valid_shape | both | valid(src) == valid(dst) | assert verifier | the extents of dst alone are used
same_type | both | elem(dst) == elem(src) or (elem(dst) == f32 and elem(src) == f16) | header verifier | the headers refuse it
same_type | both | width_of(scalar) == width(src) | verifier | the parameter of the C++ has the type of the elements
""",
)
bind(
    "texpands",
    """
same_type | both | width_of(scalar) == width(dst) | verifier | the parameter of the C++ has the type of the elements
layout | a2a3 | loc(dst) == vec => blayout(dst) == row_major | verifier | the instruction goes along rows
repeat_stride | both | loc(dst) == mat => bytes(dst) <= 32767 * 32 | assert | the count of blocks has 15 bits
""",
)

# --- conversion, comparison, choice ----------------------------------------------------------------------------------

bind(
    "tcvt",
    """
overlap | both | size(dst) > size(src) => apart(dst, src) | reuse | wider results are written over elements not read yet
overlap | a2a3 | size(dst) < size(src) => same_or_apart(dst, src) | reading | results are written over elements not read yet
overlap | a2a3 | apart(tmp, src) and apart(dst, tmp) | reading | tmp is written before src is read
valid_shape | both | valid(src) == valid(dst) | verifier | the extents of dst alone are used
layout | a2a3 | blayout(src) == col_major or blayout(dst) == col_major => size(dst) >= size(src) | issue | a narrowing conversion goes along rows: a column leaves gaps
element_type | a2a3 | elem(src) == f32 => elem(dst) in (f16, bf16, i16, i32, i64, f32, hif8) | reading | there is no such conversion: dst is not written
element_type | a2a3 | elem(src) == f16 => elem(dst) in (f32, i32, i16, i8, ui8, i4) | reading | there is no such conversion: dst is not written
element_type | a2a3 | elem(src) == bf16 => elem(dst) in (f32, i32) | reading | there is no such conversion: dst is not written
element_type | a2a3 | elem(src) in (i8, ui8) => elem(dst) == f16 | reading | there is no such conversion: dst is not written
element_type | a2a3 | elem(src) == i16 => elem(dst) in (f16, f32) | reading | there is no such conversion: dst is not written
element_type | a2a3 | elem(src) == i32 => elem(dst) in (f32, i16, i64, f16) | reading | there is no such conversion: dst is not written
element_type | a2a3 | elem(src) == i64 => elem(dst) in (f32, i32) | reading | there is no such conversion: dst is not written
element_type | a2a3 | elem(src) not in (ui16, ui32) | reading | there is no such conversion: dst is not written
element_type | a5 | elem(src) == f16 => elem(dst) in (f32, i32, i16, i8, ui8) | reading | there is no such conversion: dst is not written
element_type | a5 | elem(src) == bf16 => elem(dst) in (f32, i32, f16) | reading | there is no such conversion: dst is not written
element_type | a5 | elem(src) == i16 => elem(dst) in (f16, f32, ui8, ui32, i32) | reading | there is no such conversion: dst is not written
element_type | a5 | elem(src) == i32 => elem(dst) in (f32, i16, i64, ui16, ui8) | reading | there is no such conversion: dst is not written
element_type | a5 | elem(src) == i64 => elem(dst) in (f32, i32) | reading | there is no such conversion: dst is not written
element_type | a5 | elem(src) != ui16 | reading | there is no such conversion: dst is not written
scratch_size | a2a3 | elem(src) == f16 => elem(dst) in (i8, i16) => bytes(tmp) >= 256 | reading | results are written past it
scratch_size | a2a3 | elem(src) == f32 => elem(dst) == i16 => bytes(tmp) >= 256 * min(max(floor(valid_cols(src), 64), 1), 255) | reading | results are written past it
rounding_mode | a2a3 | attr(rmode) == ODD => elem(src) == f32 and elem(dst) == f16 | reading | the mode is not there for this pair, and another one is taken
attribute | both | attr(satmode) == '' or attr(sat_mode) == '' | verifier | it is one attribute in two spellings
""",
)
bind(
    "tcmp",
    """
overlap | both | apart(dst, src0) and apart(dst, src1) | reading | the mask is written over elements not read yet
valid_shape | both | valid(src0) == valid(src1) and valid_rows(src0) == valid_rows(dst) | assert verifier | the extents of src0 alone are used
same_type | both | elem(src0) == elem(src1) | header verifier | the headers refuse it
shape | both | cols(dst) * 8 * size(dst) >= valid_cols(src0) | reading | a row of the mask runs into the next one
element_type | both | size(dst) == 1 or elem(dst) == ui32 | docs verifier | the mask is read as bytes
""",
)
bind(
    "tcmps",
    """
overlap | both | apart(dst, src) | reading | the mask is written over elements not read yet
valid_shape | both | valid_rows(src) == valid_rows(dst) | assert verifier | the extents of src alone are used
same_type | both | width_of(scalar) == width(src) | header | the parameter of the C++ has the type of the elements
element_type | a2a3 | elem(src) in (i32, f32, f16, ui16, i16) | header | the headers refuse it
layout | both | blayout(dst) == row_major | header | the mask is written along rows
""",
)
bind(
    "tsel",
    """
overlap | both | apart(dst, mask) and apart(dst, tmp) | reuse | dst is written before the whole mask is read
overlap | a2a3 | apart(tmp, mask) and apart(tmp, src0) and apart(tmp, src1) | reading | tmp is written before they are read
scratch_size | a2a3 | bytes(tmp) >= 32 | reading | it holds the address of the mask
same_type | both | elem(dst) == elem(src0) and elem(dst) == elem(src1) | header verifier | the headers refuse it
valid_shape | both | valid_rows(src0) >= valid_rows(dst) and valid_cols(src0) >= valid_cols(dst) and valid_rows(src1) >= valid_rows(dst) and valid_cols(src1) >= valid_cols(dst) | reading | elements outside of the valid part are chosen
shape | both | cols(mask) * 8 * size(mask) >= valid_cols(dst) and rows(mask) >= valid_rows(dst) | reading | the mask is read past its end
layout | both | blayout(src0) == row_major and blayout(src1) == row_major and blayout(dst) == row_major | header verifier | the instruction goes along rows
""",
)
bind(
    "tsels",
    """
overlap | both | apart(dst, mask) | reuse codegen | dst is written before the whole mask is read
overlap | a2a3 | apart(tmp, mask) and apart(tmp, src) | codegen | tmp is written before they are read
scratch_size | a2a3 | bytes(tmp) >= 32 | reading | it holds the scalar
element_type | a5 | elem(dst) != bf16 | header | the headers refuse it
same_type | both | elem(dst) == elem(src) | header verifier | the headers refuse it
valid_shape | both | valid(src) == valid(dst) | assert | the extents of dst alone are used
shape | both | cols(mask) * 8 * size(mask) >= valid_cols(src) and rows(mask) >= valid_rows(src) | codegen | the mask is read past its end
layout | both | blayout(src) == row_major and blayout(dst) == row_major | header verifier | the instruction goes along rows
""",
)

# --- rows and columns ------------------------------------------------------------------------------------------------

_SUMS = "trowsum trowmax trowmin trowprod"
_ARGS = "trowargmax trowargmin"
bind(
    f"{_SUMS} {_ARGS}",
    """
overlap | both | apart(dst, src) and apart(dst, tmp) | reuse | results are written over elements not read yet
overlap | a2a3 | apart(tmp, src) | reading | partial results are written over elements not read yet
layout | both | blayout(src) == row_major and slayout(src) == none_box and slayout(dst) == none_box | header verifier | the instruction goes along rows
valid_shape | both | valid_rows(src) == valid_rows(dst) and valid_cols(dst) == 1 | assert verifier | there is one result a row
valid_shape | both | valid_rows(src) > 0 and valid_cols(src) > 0 | assert verifier | an empty tile is not reduced: dst is not written
scratch_type | a2a3 | elem(tmp) == elem(src) | verifier reading | partial results have the type of src
""",
)
bind(
    _SUMS,
    """
same_type | both | elem(src) == elem(dst) | header verifier | the headers refuse it
layout | both | blayout(dst) == row_major or cols(dst) == 1 | header verifier | the headers refuse it
location | a2a3 | loc(tmp) == vec | verifier | scratch lies in vec
""",
)
bind(
    "trowsum trowmax trowmin",
    """
scratch_size | a2a3 | elem(src) == f32 => cols(dst) == 1 => valid_cols(src) in (128, 256, 512, 1024) => valid_rows(src) * valid_cols(src) == 8192 => bytes(tmp) >= 4096 | reading | partial results are written past it
scratch_size | a2a3 | elem(src) in (f16, f32) => valid_cols(src) * size(src) > 256 => rows(tmp) >= valid_rows(src) | reading | partial results of the last rows are written past it
""",
)
bind(
    "trowsum",
    """
scratch_size | a2a3 | elem(src) in (f16, f32) => valid_cols(src) * size(src) > 256 => cols(tmp) * size(tmp) >= 256 * max(1, floor(floor(valid_cols(src) * size(src), 256), 2)) | reading | partial results of a row run into those of the next one
""",
)
bind(
    "trowmax trowmin",
    """
scratch_size | a2a3 | elem(src) in (f16, f32) => valid_cols(src) * size(src) > 256 => cols(tmp) * size(tmp) >= 256 | reading | partial results of a row run into those of the next one
""",
)
bind(
    _ARGS,
    """
scratch_size | a2a3 | valid_cols(src) * size(src) > 256 => rows(tmp) == rows(src) | verifier | positions of a row run into those of the next one
""",
)
bind(
    "tcolsum",
    """
overlap | both | apart(tmp, src) and apart(dst, tmp) | reading | partial results are written over elements not read yet
attribute | both | attr(isBinary) != '' => present(tmp) | verifier | the algorithm needs scratch
scratch_type | both | elem(tmp) == elem(src) | header verifier | partial results have the type of src
scratch_size | both | attr(isBinary) != '' => cols(tmp) >= valid_cols(src) | assert verifier | partial results of a row run into those of the next one
scratch_size | both | attr(isBinary) not in ('', 0, false) => rows(tmp) >= ceil(valid_rows(src), 2) | docs | partial results are written past it
layout | a2a3 | blayout(tmp) == row_major and slayout(tmp) == none_box | header verifier | the instruction goes along rows
""",
)
bind(
    "tcolsum tcolmax tcolmin tcolprod",
    """
same_type | both | elem(src) == elem(dst) | header verifier | the headers refuse it
layout | both | blayout(src) == row_major and blayout(dst) == row_major and slayout(src) == none_box and slayout(dst) == none_box | header verifier | the instruction goes along rows
valid_shape | both | valid_cols(src) == valid_cols(dst) | assert verifier | there is one result a column
""",
)
bind(
    "tcolargmax tcolargmin",
    """
element_type | both | not present(dstidx) => width(dst) == i32 | header verifier | positions have 32 bits
overlap | both | apart(dst, src) and apart(dst, tmp) | reuse | positions are written over elements not read yet
overlap | a2a3 | apart(tmp, src) | reading | partial results are written over elements not read yet
scratch_type | a2a3 | elem(tmp) == elem(src) | header verifier | partial results have the type of src
layout | both | blayout(dst) == row_major and slayout(dst) == none_box and slayout(src) == none_box | header verifier | the instruction goes along rows
valid_shape | both | valid_rows(dst) == 1 and valid_cols(src) == valid_cols(dst) | assert verifier | there is one result a column
valid_shape | both | valid_rows(src) > 0 and valid_cols(src) > 0 | assert verifier | an empty tile is not reduced: dst is not written
""",
)
bind(
    "trowexpand tcolexpand",
    """
overlap | both | apart(dst, src) | reuse | the whole of dst is written before src is read to its end
same_type | both | elem(src) == elem(dst) | header verifier | the headers refuse it
layout | both | blayout(dst) == row_major and slayout(src) == none_box and slayout(dst) == none_box | header verifier | the instruction goes along rows
""",
)
bind(
    "trowexpand",
    """
valid_shape | both | valid_rows(src) == valid_rows(dst) | assert verifier | there is one value for each row
valid_shape | both | valid_rows(src) > 0 and valid_cols(src) > 0 and valid_cols(dst) > 0 | assert verifier | an empty tile is not expanded: dst is not written
valid_shape | a5 | valid_cols(src) == 1 | header | the headers refuse it
""",
)
bind(
    "tcolexpand",
    """
valid_shape | both | valid_cols(src) == valid_cols(dst) | assert verifier | there is one value for each column
valid_shape | a5 | valid_rows(src) > 0 and valid_cols(src) > 0 | assert | an empty tile is not expanded
""",
)
_ROW_FUNCTIONS = "trowexpandadd trowexpandsub trowexpandmul trowexpanddiv trowexpandmax trowexpandmin trowexpandexpdif"
_COL_FUNCTIONS = "tcolexpandadd tcolexpandsub tcolexpandmul tcolexpanddiv tcolexpandmax tcolexpandmin tcolexpandexpdif"
bind(
    _ROW_FUNCTIONS,
    """
overlap | both | cols(src1) < cols(dst) => apart(dst, src1) | reuse | results are written over values that later rows need
overlap | both | cols(src0) < cols(dst) => apart(dst, src0) | reuse | results are written over values that later rows need
overlap | a2a3 | apart(tmp, src0) and apart(tmp, src1) and apart(dst, tmp) | reading | values are spread over tmp before the operands are read
same_type | both | elem(src0) == elem(dst) and elem(src1) == elem(dst) | header verifier | the headers refuse it
scratch_type | a2a3 | elem(tmp) == elem(dst) | verifier | values have the type of dst
scratch_size | a2a3 | valid_rows(dst) < 256 => bytes(tmp) >= 256 * ceil(valid_rows(dst), 8) | docs | the values of the last rows are written past it
scratch_size | a2a3 | valid_rows(dst) >= 256 => bytes(tmp) >= 7680 | docs | the values of the last rows are written past it
layout | a2a3 | present(tmp) => cols(src1) < cols(dst) => blayout(src1) == col_major and valid_cols(src1) == 1 | header | values are spread over tmp from a column
capacity | a2a3 | not present(tmp) => cols(src1) < cols(dst) => blayout(src1) == col_major => address(dst) + bytes(dst) <= 188416 and address(src0) + bytes(src0) <= 188416 and address(src1) + bytes(src1) <= 188416 | reading | the instruction works in the last 8 KiB
layout | both | blayout(dst) == row_major | header verifier | the instruction goes along rows
valid_shape | both | valid_rows(src0) == valid_rows(dst) and valid_rows(src1) == valid_rows(dst) | assert verifier | there is one value for each row
valid_shape | both | valid_cols(src0) == valid_cols(dst) or valid_cols(src1) == valid_cols(dst) | assert verifier | one operand is as wide as dst
valid_shape | both | blayout(src1) == row_major => valid_cols(src1) in (valid_cols(dst), floor(32, size(src1))) | assert verifier | a value a row is a column, or a block of 32 bytes in each row
""",
)
bind(
    "trowexpanddiv",
    """
attribute | both | attr(precisionType) == high_precision => present(tmp) | verifier | the algorithm needs scratch
""",
)
bind(
    "trowexpandadd",
    """
overlap | a5 | apart(dst, tmp) | reuse | values are spread over tmp before the operands are read
""",
)
bind(
    _COL_FUNCTIONS,
    """
overlap | both | apart(dst, src1) | reuse | results are written over values that later rows need
same_type | both | elem(src0) == elem(dst) and elem(src1) == elem(dst) | header verifier | the headers refuse it
layout | both | blayout(src0) == row_major and blayout(src1) == row_major and blayout(dst) == row_major | header verifier | the instruction goes along rows
valid_shape | both | valid(src0) == valid(dst) and valid_cols(src1) == valid_cols(dst) | verifier | the extents of dst alone are used
""",
)
bind(
    "tpartadd tpartmul tpartmax tpartmin",
    """
same_type | both | elem(src0) == elem(dst) and elem(src1) == elem(dst) | header verifier | the headers refuse it
layout | a2a3 | blayout(src0) == row_major and blayout(src1) == row_major and blayout(dst) == row_major | header verifier | the instruction goes along rows
valid_shape | both | valid_rows(src0) <= valid_rows(dst) and valid_cols(src0) <= valid_cols(dst) and valid_rows(src1) <= valid_rows(dst) and valid_cols(src1) <= valid_cols(dst) | assert verifier | elements outside of dst are written
valid_shape | both | valid_rows(src0) == valid_rows(dst) and valid_cols(src0) == valid_cols(dst) or valid_rows(src1) == valid_rows(dst) and valid_cols(src1) == valid_cols(dst) | assert verifier | one operand is valid as dst
""",
)
bind(
    "tpartargmax tpartargmin",
    """
same_type | both | elem(src0) == elem(dst) and elem(src1) == elem(dst) and elem(idx0) == elem(dstidx) and elem(idx1) == elem(dstidx) | header verifier | the headers refuse it
element_type | both | elem(dst) in (f16, f32) | header | the headers refuse it
element_type | both | elem(dst) == f32 => width(dstidx) == i32 | header verifier | the headers refuse it
valid_shape | both | valid(idx0) == valid(src0) and valid(idx1) == valid(src1) and valid(dstidx) == valid(dst) | assert verifier | each value has a position
""",
)

# --- elements elsewhere ----------------------------------------------------------------------------------------------

bind(
    "tci",
    """
overlap | a2a3 | apart(dst, tmp) | reading | tmp is written before dst is complete
scratch_size | a2a3 | size(dst) == 4 => bytes(tmp) >= 768 | docs | the sequence is written past it
scratch_size | a2a3 | size(dst) == 2 => bytes(tmp) >= 1792 | docs | the sequence is written past it
scratch_type | a2a3 | size(tmp) == 4 | docs | it holds numbers of 32 bits
shape | both | rows(dst) == 1 | header | the headers refuse it
shape | both | cols(dst) != 1 | verifier | a sequence has two elements at least
same_type | both | width_of(start) == width(dst) | header verifier | the parameter of the C++ has the type of the elements
""",
)
bind(
    "ttri",
    """
attribute | both | attr(upperOrLower) in ('', 0, 1) | header verifier | the headers refuse it
layout | both | blayout(dst) == row_major | header verifier | the instruction goes along rows
""",
)
bind(
    "tgather",
    """
overlap | both | apart(dst, src) and apart(dst, idx) and apart(dst, tmp) | reuse | elements are written over those that are still to be read
overlap | a2a3 | apart(tmp, src) and apart(tmp, idx) | reading | byte positions are written to tmp before the operands are read
scratch_type | a2a3 | not present(k) => elem(tmp) == elem(idx) | header verifier | the headers refuse it
scratch_size | a2a3 | not present(k) => valid(tmp) == valid(idx) | assert | the positions are written past it
element_type | a2a3 | size(idx) == 4 | header | positions have 32 bits
element_type | a5 | size(idx) in (2, 4) | header verifier | positions have 16 or 32 bits
element_type | a2a3 | size(dst) in (2, 4) | header verifier | elements have 16 or 32 bits
same_type | both | present(idx) => elem(dst) == elem(src) | header verifier | the headers refuse it
element_type | both | present(k) => width(dst) == i32 | header verifier | positions have 32 bits
attribute | a2a3 | present(idx) => present(tmp) | header verifier | the C++ has no variant without scratch
same_type | both | attr(maskPattern) != '' => size(dst) == size(src) | header verifier | elements are copied as they are
element_type | a2a3 | attr(maskPattern) != '' => size(dst) in (2, 4) | header verifier | elements have 16 or 32 bits
valid_shape | both | attr(maskPattern) == P1111 => valid_cols(dst) == valid_cols(src) | codegen | the pattern takes all elements
valid_shape | both | attr(maskPattern) in (P0101, P1010) => valid_cols(dst) * 2 == valid_cols(src) | codegen | the pattern takes every second element
valid_shape | both | attr(maskPattern) in (P0001, P0010, P0100, P1000) => valid_cols(dst) * 4 == valid_cols(src) | codegen | the pattern takes every fourth element
same_type | both | elem(cdst) == elem(dst) | header verifier | the headers refuse it
layout | both | blayout(src) == row_major and blayout(dst) == row_major | verifier | the instruction goes along rows
valid_shape | both | present(idx) => valid_cols(idx) == cols(idx) and valid_cols(dst) == cols(dst) | verifier docs | whole rows are gathered
valid_shape | both | attr(maskPattern) != '' => valid_cols(dst) == cols(dst) | assert verifier | whole rows are gathered
""",
)
bind(
    "tgatherb",
    """
overlap | both | apart(dst, src) and apart(dst, offsets) | reuse | blocks are written over those that are still to be read
alignment | both | address(src) % 32 == 0 | codegen | blocks begin at multiples of 32 bytes
element_type | both | elem(offsets) == ui32 | codegen | offsets are unsigned numbers of 32 bits
element_type | both | size(dst) in (1, 2, 4) | header verifier | the headers refuse it
shape | both | cols(offsets) % 8 == 0 | codegen | eight offsets are read at a time
layout | both | blayout(dst) == row_major | header verifier | the instruction goes along rows
""",
)
bind(
    "tscatter",
    """
overlap | both | apart(dst, src) and apart(dst, idx) | reading | dst is written before the operands are read
same_type | both | elem(dst) == elem(src) | header verifier | the headers refuse it
element_type | both | width(idx) in (i16, i32) | header verifier | the headers refuse it
element_type | both | size(src) == 4 => size(idx) == 4 | header verifier | the headers refuse it
element_type | both | size(src) in (1, 2) => size(idx) == 2 | header verifier | the headers refuse it
valid_shape | both | present(idx) => valid(src) == valid(dst) | assert | the extents of dst alone are used
valid_shape | both | attr(maskPattern) == P1111 => valid_cols(dst) == valid_cols(src) | verifier | the pattern fills all elements
valid_shape | both | attr(maskPattern) in (P0101, P1010) => valid_cols(dst) == 2 * valid_cols(src) | verifier | the pattern fills every second element
valid_shape | both | attr(maskPattern) in (P0001, P0010, P0100, P1000) => valid_cols(dst) == 4 * valid_cols(src) | verifier | the pattern fills every fourth element
""",
)
bind(
    "mgather",
    """
overlap | both | apart(dst, idx) | reuse | rows are written over positions that are still to be read
alignment | both | cols(dst) * size(dst) % 32 == 0 | header verifier | rows begin at multiples of 32 bytes
element_type | both | width(idx) == i32 | header verifier | positions have 32 bits
same_type | both | elem(src) == elem(dst) | header verifier | elements are copied as they are
valid_shape | both | attr(coalesce) == row => loc(dst) == vec => valid_rows(idx) == 1 and valid_cols(idx) == valid_rows(dst) | verifier | each row has a position
valid_shape | both | attr(coalesce) == elem => loc(dst) == vec => valid(idx) == valid(dst) | verifier | each element has a position
valid_shape | a5 | attr(coalesce) == row => extent(src, 1) == valid_cols(dst) | verifier | whole rows are gathered
layout | a2a3 | blayout(idx) == row_major and slayout(idx) == none_box | verifier | positions are read along rows
location | both | loc(dst) == vec => loc(idx) == vec | verifier | positions lie beside the rows
layout | both | loc(dst) == vec => order(src) == nd | header verifier | rows are gathered from rows
erratum | a2a3 | loc(dst) == vec => attr(coalesce) != elem | issue | the core faults where many elements are gathered
alignment | both | loc(dst) == mat => rows(dst) % 16 == 0 and cols(dst) % floor(32, size(dst)) == 0 | verifier | mat is filled in fractals
""",
)
bind(
    "mscatter",
    """
same_type | both | elem(dst) == elem(src) | header verifier | elements are copied as they are
element_type | both | elem(src) in (i8, ui8, i16, ui16, i32, ui32, f16, bf16, f32) | verifier | the headers refuse it
valid_shape | both | attr(coalesce) == row => valid_rows(idx) == 1 and valid_cols(idx) == valid_rows(src) | verifier | each row has a position
valid_shape | both | attr(coalesce) == elem => valid(idx) == valid(src) | verifier | each element has a position
atomic | a2a3 | attr(scatterAtomicOp) == add => elem(src) in (i8, i16, i32, f16, bf16, f32) | header | there is no such addition
atomic | a5 | attr(scatterAtomicOp) == add => elem(src) in (i32, ui32, f16, bf16, f32) | header | there is no such addition
atomic | a5 | attr(scatterAtomicOp) in (max, min) => elem(src) in (i32, f32) | header | there is no such comparison
element_type | both | width(idx) == i32 | header verifier | positions have 32 bits
attribute | a2a3 | attr(scatterConflict) == '' | verifier | a2a3 has no order of conflicts
""",
)
bind(
    "tsort32",
    """
overlap | both | apart(dst, src) and apart(dst, idx) | reuse | pairs are written over values that are still to be read
overlap | both | apart(tmp, src) and apart(tmp, idx) and apart(tmp, dst) | reading | tmp is written before the operands are read
same_type | both | elem(dst) == elem(src) | header verifier | the headers refuse it
element_type | both | width(idx) == i32 | header verifier | the headers refuse it
layout | both | blayout(src) == row_major and blayout(dst) == row_major and blayout(idx) == row_major | header verifier | the instruction goes along rows
shape | both | elem(src) == f32 => cols(dst) >= 2 * cols(src) | reading | pairs are written past dst
shape | both | elem(src) == f16 => cols(dst) >= 4 * cols(src) | reading | pairs are written past dst
scratch_size | both | cols(tmp) >= ceil(valid_cols(src), 32) * 32 | docs | the padded values are written past it
valid_shape | both | not present(tmp) => valid_cols(src) % 32 == 0 | docs | the last values are not sorted without scratch
valid_shape | both | valid_rows(idx) in (1, valid_rows(dst)) | reading | positions of the last rows are read past their end
""",
)
bind(
    "tmrgsort",
    """
overlap | both | apart(dst, src) | reuse | pairs are written over those that are still to be read
overlap | both | apart(dst, src0) and apart(dst, src1) and apart(dst, src2) and apart(dst, src3) | reuse | pairs are written over those that are still to be read
overlap | both | apart(dst, tmp) and apart(tmp, src0) and apart(tmp, src1) and apart(tmp, src2) and apart(tmp, src3) | reuse reading | tmp is written before the lists are read
same_type | both | elem(src) == elem(dst) | header verifier | the headers refuse it
same_type | both | elem(src0) == elem(dst) and elem(src1) == elem(dst) and elem(src2) == elem(dst) and elem(src3) == elem(dst) and elem(tmp) == elem(dst) | header verifier | the headers refuse it
layout | both | blayout(src) == row_major and blayout(dst) == row_major | header verifier | the instruction goes along rows
scalar_range | both | scalar(block_len) > 0 and scalar(block_len) % 64 == 0 | assert verifier | lists have a multiple of 64 elements
valid_shape | both | valid_cols(src) % (4 * scalar(block_len)) == 0 | assert | four lists are merged at a time
repeat_stride | both | valid_cols(src) <= 255 * 4 * scalar(block_len) | assert | the count of merges has 8 bits
shape | both | cols(src) == cols(dst) | verifier | the headers refuse it
shape | both | rows(src) == 1 and rows(dst) == 1 | header verifier | lists have one row
shape | both | rows(src0) == 1 and rows(src1) == 1 and rows(src2) == 1 and rows(src3) == 1 and rows(tmp) == 1 | header verifier | lists have one row
shape | both | cols(dst) >= valid_cols(src0) + valid_cols(src1) | reading | pairs are written past dst
scratch_size | both | cols(tmp) >= cols(dst) | verifier | pairs are written past it
capacity | both | (valid_cols(src) + valid_cols(dst)) * size(dst) < 196608 | assert | the lists do not fit
""",
)
bind(
    "ttrans",
    """
overlap | both | apart(dst, src) and apart(dst, tmp) | reuse | elements are written over those that are still to be read
overlap | a2a3 | apart(tmp, src) | reading | tmp is written before src is read
same_type | both | elem(src) == elem(dst) | header verifier | the headers refuse it
scratch_type | both | elem(tmp) == elem(src) | verifier | the headers refuse it
valid_shape | both | valid_rows(dst) == valid_cols(src) and valid_cols(dst) == valid_rows(src) | reading | elements are written outside of dst
erratum | both | valid_rows(src) > 0 and valid_cols(src) > 0 | codegen | the core hangs
layout | a2a3 | blayout(src) == row_major | header verifier | the instruction goes along rows
scratch_size | a2a3 | size(src) == 1 => cols(src) % 32 == 0 and cols(src) <= 8160 and cols(dst) % 32 == 0 => bytes(tmp) >= valid_cols(src) * ceil(valid_rows(src), 32) * 32 | docs | blocks are written past it
scratch_size | a2a3 | size(src) > 1 => cols(src) * size(src) % 32 == 0 and cols(src) * size(src) <= 8160 and cols(dst) % 16 == 0 => bytes(tmp) >= valid_cols(src) * ceil(valid_rows(src), 16) * 16 * size(src) | docs | blocks are written past it
alignment | a5 | cols(src) * size(src) % 32 == 0 and cols(dst) * size(dst) % 32 == 0 | header verifier | the headers refuse it
repeat_stride | a5 | size(src) < 4 => (rows(src) - 1) * cols(src) + cols(src) - 1 <= 65535 | header | positions of elements have 16 bits
element_type | both | size(src) in (1, 2, 4) | header verifier | the headers refuse it
""",
)
bind(
    "tconcat",
    """
overlap | both | apart(dst, src0) and apart(dst, src1) | reuse | rows are written over those that are still to be read
same_type | both | elem(src0) == elem(dst) and elem(src1) == elem(dst) | header verifier | the headers refuse it
valid_shape | both | valid_rows(src0) == valid_rows(dst) and valid_rows(src1) == valid_rows(dst) | assert verifier | the extents of dst alone are used
valid_shape | a2a3 | valid_cols(src0) + valid_cols(src1) <= cols(dst) | assert verifier | rows run into the next ones
valid_shape | a5 | valid_cols(src0) + valid_cols(src1) == valid_cols(dst) | assert | rows run into the next ones
layout | both | blayout(src0) == row_major and blayout(src1) == row_major and blayout(dst) == row_major | header verifier | the instruction goes along rows
""",
)
bind(
    "tfillpad",
    """
valid_shape | both | same_start(dst, src) => valid_rows(src) == valid_rows(dst) => valid_cols(src) == valid_cols(dst) => valid_rows(dst) == rows(dst) and valid_cols(dst) == cols(dst) | issue | the tile is its own source: nothing is padded
""",
)
bind(
    "tfillpad_inplace",
    """
overlap | both | same_start(dst, src) | docs | nothing is copied: dst has only the pad
""",
)
bind(
    "tfillpad_expand",
    """
overlap | both | apart(dst, src) | reuse | rows are written over those that are still to be read
shape | both | rows(dst) >= rows(src) and cols(dst) >= cols(src) | header verifier | dst is at least as large as src
""",
)
bind(
    "tfillpad tfillpad_inplace",
    """
shape | both | loc(dst) == vec => shape(dst) == shape(src) | header verifier | tfillpad_expand is the operation for another shape
""",
)
bind(
    "tfillpad tfillpad_inplace tfillpad_expand",
    """
location | both | loc(dst) == loc(src) | verifier | both lie in vec, or both in mat
attribute | both | loc(dst) == vec => pad(dst) != '0' | header verifier | the type of dst names no pad value
attribute | both | loc(dst) == mat => pad(dst) in ('0', '1') | header | mat is padded with zeros only
layout | both | loc(dst) == mat => blayout(dst) == col_major and slayout(dst) == row_major | header | mat is padded in fractals
same_type | both | size(src) == size(dst) | header verifier | the headers refuse it
element_type | both | size(dst) in (1, 2, 4) | header verifier | the headers refuse it
valid_shape | both | valid_rows(dst) >= valid_rows(src) and valid_cols(dst) >= valid_cols(src) | reading | elements outside of dst are written
""",
)
bind(
    "tquant",
    """
overlap | a2a3 | apart(tmp, src) | reading | tmp is written before src is read
scratch_type | a2a3 | elem(tmp) == elem(src) | verifier | the headers refuse it
scratch_size | a2a3 | valid(tmp) == valid(src) | docs verifier | results are written past it
element_type | both | elem(src) == f32 and elem(scale) == f32 and elem(offset) == f32 | header verifier | the headers refuse it
attribute | both | attr(quantType) == INT8_ASYM => present(offset) | verifier | the mode has a zero point
attribute | both | attr(quantType) == INT8_SYM => not present(offset) | verifier | the mode has no zero point
element_type | both | attr(quantType) == INT8_SYM => width(dst) == i8 | header verifier | there is no such result
valid_shape | a2a3 | valid_rows(scale) == valid_rows(dst) and valid_cols(scale) == 1 | docs | there is one scale a row
layout | a2a3 | blayout(scale) == col_major | docs | scales are a column
""",
)
bind(
    "tdequant",
    """
overlap | both | apart(dst, src) | reading | wider results are written over elements not read yet
element_type | both | elem(dst) == f32 and elem(scale) == f32 and elem(offset) == f32 | header verifier | the headers refuse it
valid_shape | both | valid(src) == valid(dst) | assert | the extents of dst alone are used
""",
)

# --- moves and products ----------------------------------------------------------------------------------------------

bind(
    "tmov",
    """
overlap | both | apart(dst, src) | reuse codegen | blocks are written over those that are still to be read
capacity | both | loc(dst) == bias => cols(dst) * size(dst) <= 4096 | header | the bias table is full
capacity | a2a3 | loc(dst) == bias => cols(dst) * size(dst) <= 1024 | header | the bias table is full
capacity | both | loc(dst) == scaling => cols(dst) * size(dst) <= 4096 | header | the memory of scales is full
alignment | both | loc(dst) == scaling => rows(src) == 1 and cols(dst) * size(dst) % 128 == 0 | header | the headers refuse it
element_type | both | loc(dst) == scaling => elem(dst) in (i64, ui64) | header | scales have 64 bits
element_type | a2a3 | loc(dst) == bias => elem(src) in (i32, f32, f16) | header | the headers refuse it
element_type | a5 | loc(dst) == bias => elem(src) in (i32, f32, f16, bf16) | header | the headers refuse it
element_type | both | loc(dst) == bias => elem(dst) in (i32, f32) and (elem(dst) == i32) == (elem(src) == i32) | header | the headers refuse it
element_type | a2a3 | loc(src) == acc => loc(dst) == mat => elem(src) == f32 => not present(pre_quant) => elem(dst) in (f16, bf16) | header verifier | there is no such conversion
layout | both | loc(src) == acc => blayout(src) == col_major and slayout(src) == row_major | header | the accumulator has fractals
layout | a2a3 | loc(src) == acc => loc(dst) == mat => blayout(dst) == col_major and slayout(dst) == row_major and fractal(dst) == 512 | header | the accumulator is written in fractals
layout | a2a3 | loc(src) == vec => loc(dst) == vec => blayout(dst) == blayout(src) and slayout(dst) == slayout(src) | reading | rows are copied as rows
layout | a5 | loc(src) == vec => loc(dst) == vec => slayout(dst) == none_box => blayout(dst) == blayout(src) and slayout(src) == none_box | reading | rows are copied as rows
location | a2a3 | loc(src) == vec => loc(dst) == vec | header verifier | there is no such way
location | a2a3 | loc(src) == acc => loc(dst) == mat | header verifier | there is no such way
location | a5 | loc(src) == vec => loc(dst) in (vec, mat) | header verifier | there is no such way
location | both | loc(src) == mat => loc(dst) not in (vec, mat) | header verifier | there is no such way
shape | both | loc(src) == mat => loc(dst) in (left, right) => shape(src) == shape(dst) | header | blocks beyond the smaller one are read
alignment | both | loc(src) == acc => cols(dst) * size(dst) % 32 == 0 | header | the headers refuse it
valid_shape | a2a3 | loc(dst) == vec => valid_rows(src) > 0 and valid_cols(src) > 0 | assert | an empty tile is not moved
valid_shape | a5 | attr(accToVecMode) == dual_mode_split_n => size(dst) == 4 => valid_cols(src) % 32 == 0 | docs | half of the columns is no whole number of blocks
attribute | a5 | attr(accToVecMode) in (dual_mode_split_m, dual_mode_split_n) => not present(pre_quant) and (blayout(dst) == row_major or slayout(dst) != none_box) | header | both vector cores are given the same
attribute | a2a3 | attr(accToVecMode) == '' | header verifier | the mode is for a5
erratum | a5 | loc(src) == vec => loc(dst) == vec => blayout(src) == col_major => cols(src) == 1 => rows(src) * size(src) >= 64 | issue | the access is not aligned
alignment | both | loc(dst) == bias => cols(dst) * size(dst) % 64 == 0 | header | the headers refuse it
shape | both | loc(dst) == bias => rows(src) == 1 | header | a bias is one row
same_type | both | loc(src) == mat => loc(dst) in (left, right) => elem(dst) == elem(src) | header verifier | nothing is converted on the way
layout | both | loc(dst) == right => blayout(dst) == row_major and slayout(dst) == col_major | header verifier | products read another order of elements
layout | a2a3 | loc(dst) == left => blayout(dst) == row_major and slayout(dst) == row_major | header verifier | products read another order of elements
layout | a5 | loc(dst) == left => blayout(dst) == col_major and slayout(dst) == row_major | header verifier | products read another order of elements
location | both | loc(dst) != acc | issue | nothing moves into acc
attribute | both | loc(src) != acc => attr(reluPreMode) in ('', no_relu) | header verifier | it is for tiles that come from acc
""",
)
bind(
    "tprefetch",
    """
same_type | both | size(dst) == size(src) | header verifier | nothing is converted on the way
""",
)
bind(
    "tsetval",
    """
same_type | both | width_of(value) == width(tile) | verifier | the value has the type of the elements
index_range | both | scalar(offset) >= 0 and scalar(offset) < rows(tile) * cols(tile) | verifier | the element lies outside of the tile
""",
)
bind(
    "textract tinsert",
    """
location | a2a3 | loc(src) == acc => loc(dst) == mat | header verifier | there is no such way
alignment | a2a3 | loc(src) == vec => loc(dst) == vec => slayout(src) == none_box => scalar(col) * size(src) % 32 == 0 | assert | the window does not begin with a block
alignment | a2a3 | loc(src) == vec => loc(dst) == vec => slayout(src) != none_box => scalar(row) % 16 == 0 and scalar(col) % floor(32, size(src)) == 0 | assert | the window begins inside of a fractal
layout | both | loc(src) == vec => loc(dst) == vec => blayout(dst) == blayout(src) and slayout(dst) == slayout(src) | verifier | rows are copied as rows
layout | both | loc(src) == acc => loc(dst) == mat => blayout(dst) == col_major and slayout(dst) == row_major and fractal(dst) == 512 | header | the accumulator is written in fractals
element_type | both | loc(src) == vec => loc(dst) == vec => size(src) in (1, 2, 4) | header verifier | the headers refuse it
alignment | a2a3 | loc(src) == vec => loc(dst) == vec => valid_cols(src) * size(src) % 2 == 0 and valid_cols(dst) * size(dst) % 2 == 0 | assert | the vector unit moves 16 bits at least
""",
)
bind(
    "textract",
    """
location | a2a3 | loc(src) == mat => loc(dst) in (left, right) | header verifier | there is no such way
location | a2a3 | loc(src) == vec => loc(dst) == vec | header verifier | there is no such way
location | a5 | loc(src) == mat => loc(dst) in (left, right, scaling) | header verifier | there is no such way
location | a5 | loc(src) == vec => loc(dst) in (vec, mat) | header verifier | there is no such way
shape | both | loc(src) == vec => loc(dst) == vec => rows(dst) <= rows(src) and cols(dst) <= cols(src) | verifier | the window is larger than src
alignment | both | loc(src) == mat => loc(dst) in (left, right) => slayout(src) == col_major => size(src) == 1 => scalar(row) % 32 == 0 and scalar(col) % 32 == 0 | header assert | the window begins inside of a block that is transposed
alignment | both | loc(src) == mat => loc(dst) == left => rows(src) == 1 => cols(src) * size(src) % 512 == 0 and scalar(col) * size(src) % 512 == 0 | header assert | the window does not begin with a fractal
element_type | a2a3 | loc(src) == mat => elem(src) in (i8, f16, bf16, f32) | header verifier | the headers refuse it
element_type | a5 | loc(src) == mat => elem(src) not in (i16, ui16, i32, ui32, i64, ui8) | header verifier | the headers refuse it
layout | both | loc(dst) == right => blayout(dst) == row_major and slayout(dst) == col_major | header verifier | products read another order of elements
layout | both | loc(src) == mat => loc(dst) in (left, right) => rows(src) == 1 or slayout(src) != none_box | header verifier | mat is read in fractals
element_type | a5 | loc(src) == acc => not present(pre_quant) => elem(dst) in (f16, bf16, f32, i32) and (elem(dst) == i32) == (elem(src) == i32) | header verifier | there is no such conversion
attribute | both | present(pre_quant) => loc(src) == acc | header verifier | it is for tiles that come from acc
attribute | both | attr(accToVecMode) != '' => loc(src) == acc and loc(dst) == vec | header verifier | it is for tiles that come from acc
""",
)
bind(
    "tinsert",
    """
location | a2a3 | loc(src) == vec => loc(dst) == vec | header verifier | there is no such way
location | a5 | loc(src) == vec => loc(dst) in (vec, mat) | header verifier | there is no such way
location | a5 | loc(src) == acc => loc(dst) in (vec, mat) | header verifier | there is no such way
shape | both | loc(src) == vec => loc(dst) == vec => rows(src) <= rows(dst) and cols(src) <= cols(dst) | verifier | the window is larger than dst
index_range | both | scalar(row) + valid_rows(src) <= rows(dst) and scalar(col) + valid_cols(src) <= cols(dst) | verifier | the window ends outside of dst
""",
)
bind(
    "tmov.fp textract_fp tinsert_fp",
    """
location | both | loc(src) == acc and loc(fp) == scaling | verifier | scales are for what comes from acc
location | a2a3 | loc(dst) == mat | verifier | there is no such way
location | a5 | loc(dst) in (mat, vec) | verifier | there is no such way
layout | both | blayout(src) == col_major and slayout(src) == row_major | header | the accumulator has fractals
layout | both | loc(dst) == mat => blayout(dst) == col_major and slayout(dst) == row_major and fractal(dst) == 512 | header | the accumulator is written in fractals
element_type | a2a3 | elem(src) == f32 => elem(dst) in (i8, ui8) | header verifier | there is no such conversion
element_type | a2a3 | elem(src) == i32 => elem(dst) in (i8, ui8, f16, i16) | header verifier | there is no such conversion
""",
)
bind(
    "tstore_fp tstore.fp",
    """
location | both | loc(src) == acc and loc(fp) == scaling | verifier | scales are for what comes from acc
element_type | a2a3 | elem(dst) in (i8, ui8) or (elem(src) == i32 and elem(dst) == f16) | header verifier | there is no such conversion
shape | both | cols(src) <= 4095 | assert verifier | the count of columns has 12 bits
""",
)
bind(
    "textract",
    """
overlap | both | same_or_apart(dst, src) | reuse codegen | the window is packed densely over rows that are still to be read
index_range | both | scalar(row) >= 0 and scalar(col) >= 0 | verifier | the window begins before src
alignment | both | loc(src) == mat => loc(dst) in (left, right) => slayout(src) == row_major => scalar(row) % 16 == 0 and scalar(col) % floor(32, size(src)) == 0 | header assert | the window begins inside of a fractal
attribute | both | loc(src) != acc => attr(reluPreMode) in ('', no_relu) | header verifier | it is for tiles that come from acc
layout | a2a3 | loc(dst) == left => blayout(dst) == row_major and slayout(dst) == row_major | header verifier | products read another order of elements
layout | a5 | loc(dst) == left => blayout(dst) == col_major and slayout(dst) == row_major | header verifier | products read another order of elements
""",
)
bind(
    "textract",
    """
layout | a5 | loc(src) == vec => loc(dst) == vec => slayout(src) == none_box and blayout(src) == row_major and slayout(dst) == none_box and blayout(dst) == row_major | verifier | the window is copied along rows
""",
)
bind(
    "tget_scale_addr",
    """
location | both | loc(src) in (left, right) and loc(dst) == scaling | verifier header | scales lie beside the operands of a product
""",
)
bind(
    "textract",
    """
element_type | a2a3 | loc(src) == acc => elem(src) == f32 => not present(pre_quant) => elem(dst) in (f16, bf16) | header verifier | there is no such conversion
""",
)
bind(
    "tinsert",
    """
element_type | a2a3 | loc(src) == acc => elem(src) == f32 => elem(dst) in (f16, bf16) | header verifier | there is no such conversion
""",
)
bind(
    "tinsert",
    """
index_range | both | scalar(row) >= 0 and scalar(col) >= 0 | verifier | the window begins before dst
same_type | both | loc(src) != acc => elem(dst) == elem(src) | header verifier | nothing is converted on the way
attribute | a2a3 | attr(tinsertMode) == '' and attr(accToVecMode) == '' | verifier | the mode is for a5
attribute | both | loc(src) != acc => attr(reluPreMode) in ('', no_relu) | header verifier | it is for tiles that come from acc
""",
)
_PRODUCTS = "tmatmul tmatmul.acc tmatmul.bias tgemv tgemv.acc tgemv.bias"
bind(
    _PRODUCTS,
    """
index_range | both | valid_rows(a) <= 4095 and valid_cols(a) <= 4095 and valid_cols(b) <= 4095 | assert verifier | the extents of a product have 12 bits
location | both | loc(a) == left and loc(b) == right and loc(dst) == acc | header verifier | the product has no way to another memory
shape | both | rows(a) == rows(dst) and cols(a) == rows(b) and cols(b) == cols(dst) | header verifier | the extents of the operands do not agree
element_type | both | elem(a) in (f16, bf16, f32) => elem(b) == elem(a) and elem(dst) == f32 | header verifier | there is no such product
element_type | both | elem(a) in (i8, ui8) => elem(b) in (i8, ui8) and elem(dst) == i32 | header verifier | there is no such product
element_type | both | size(a) == 1 or elem(a) in (f16, bf16, f32) | header verifier | there is no such product
valid_shape | both | valid_cols(a) == valid_rows(b) | verifier | the extents of the operands do not agree
layout | both | blayout(dst) == col_major and slayout(dst) == row_major and fractal(dst) == 1024 | header verifier reading | the accumulator has fractals of 16 x 16
layout | both | blayout(b) == row_major and slayout(b) == col_major | header verifier reading | the product reads another order of elements
layout | a2a3 | blayout(a) == row_major and slayout(a) == row_major | reading | the product reads another order of elements
layout | a5 | blayout(a) == col_major and slayout(a) == row_major | header verifier | the product reads another order of elements
""",
)
bind(
    "tmatmul tmatmul.bias",
    """
valid_shape | both | valid_rows(a) == valid_rows(dst) and valid_cols(b) == valid_cols(dst) | verifier | the extents of the operands do not agree
""",
)
bind(
    "tmatmul.acc",
    """
valid_shape | both | valid_rows(a) <= valid_rows(dst) and valid_cols(b) <= valid_cols(dst) | verifier | the accumulator has no place for the last rows and columns
""",
)
bind(
    "tgemv tgemv.acc tgemv.bias",
    """
valid_shape | both | valid_rows(dst) == 1 and valid_rows(a) == 1 and valid_cols(b) <= valid_cols(dst) | verifier | a vector has one row
""",
)
bind(
    "tmatmul.acc tgemv.acc",
    """
overlap | both | same_start(dst, acc) | codegen issue | the device accumulates where dst lies, and does not read the other tile
""",
)
bind(
    "tmatmul.bias tgemv.bias",
    """
same_type | both | elem(bias) == elem(dst) | header verifier | the headers refuse it
location | both | loc(bias) == bias | header verifier | the product has no way to another memory
shape | both | rows(bias) == 1 | header verifier | a bias is one row
layout | a5 | blayout(bias) == row_major | header verifier | a bias is one row
valid_shape | both | valid_cols(bias) >= valid_cols(dst) | codegen | the bias of the last columns is missing
""",
)
bind(
    "tload",
    """
same_type | both | size(dst) == size(src) | header verifier | nothing is converted on the way
valid_shape | both | loc(dst) == vec => order(src) == nd => valid_rows(dst) == outer(src) and valid_cols(dst) == extent(src, 1) | assert reading | the pitch of rows is that of the whole part
valid_shape | both | loc(dst) == vec => order(src) == dn => valid_rows(dst) == extent(src, 2) and valid_cols(dst) * extent(src, 2) == outer(src) * extent(src, 1) | assert | the pitch of columns is that of the whole part
valid_shape | both | extent(src, 1) > 0 and outer(src) > 0 | assert verifier | an empty part is not loaded
layout | both | loc(dst) == vec => order(src) == nd => blayout(dst) == row_major and slayout(dst) == none_box | header | rows become columns only on the way to mat
layout | both | loc(dst) == vec => order(src) == dn => blayout(dst) == col_major and slayout(dst) == none_box | header | columns become rows only on the way to mat
layout | both | loc(dst) == vec => order(src) == nz => slayout(dst) == row_major | header | fractals become rows only on the way to mat
layout | both | loc(dst) == mat => slayout(dst) != none_box => order(src) != nz => fractal(dst) == 512 | header | fractals of mat have 512 bytes
layout | a2a3 | loc(dst) == mat => order(src) == dn => blayout(dst) == row_major or slayout(dst) == none_box | header | columns become fractals of columns
dma | both | order(src) == nd => extent(src, 2) < 4096 or slayout(dst) != none_box | assert | the count of rows has 12 bits
dma | both | order(src) == dn => extent(src, 1) < 4096 or slayout(dst) != none_box | assert | the count of columns has 12 bits
dma | both | order(src) == nd => slayout(dst) == row_major => loc(dst) == mat => extent(src, 2) <= 16384 and extent(src, 1) <= 65535 | assert | the extents of a matrix have 14 and 16 bits
dma | both | order(src) == nd => slayout(dst) == row_major => loc(dst) == mat => stride(src, 2) <= 65535 | assert reading | the distance of rows has 16 bits
dma | both | order(src) == nd => stride(src, 1) == 1 | reading | elements of a row are read one behind the other
alignment | a2a3 | loc(dst) == mat => slayout(dst) == none_box => order(src) == nd => extent(src, 1) * size(src) % 32 == 0 | assert | rows are whole blocks
layout | both | order(src) == nz => extent(src, 2) == 16 and extent(src, 1) * size(src) == 32 | header | a fractal has 16 x 32 bytes
element_type | both | elem(dst) in (i64, ui64) => slayout(dst) == none_box | header | numbers of 64 bits have no fractals
""",
)
bind(
    "tstore",
    """
same_type | both | loc(src) != acc => size(src) == size(dst) | header verifier | nothing is converted on the way
valid_shape | both | loc(src) == vec => order(dst) == nd => valid_rows(src) * valid_cols(src) == outer(dst) * extent(dst, 1) | assert verifier | the pitch of rows is that of the whole part
valid_shape | both | extent(dst, 1) > 0 and outer(dst) > 0 | assert | an empty part is not stored
layout | both | loc(src) == vec => order(dst) == nd => blayout(src) == row_major or rows(src) == 1 or cols(src) == 1 | header verifier | columns do not become rows on the way
layout | both | loc(src) == vec => order(dst) == dn => blayout(src) == col_major or rows(src) == 1 or cols(src) == 1 | header verifier | rows do not become columns on the way
layout | both | loc(src) == acc => order(dst) != dn | header | the accumulator is stored along rows or in fractals
shape | both | loc(src) == acc => cols(src) <= 4095 | assert verifier | the count of columns has 12 bits
shape | both | loc(src) == acc => order(dst) == nd => rows(src) <= 8192 | assert | the count of rows has 13 bits
dma | both | loc(src) == vec => order(dst) == nd => extent(dst, 2) < 4096 | assert | the count of rows has 12 bits
dma | both | order(dst) == nd => stride(dst, 1) == 1 | reading | elements of a row are written one behind the other
alignment | a2a3 | loc(src) == mat => extent(dst, 1) * size(dst) % 32 == 0 | assert | rows are whole blocks
element_type | both | elem(src) in (i64, ui64) => slayout(src) == none_box | header | numbers of 64 bits have no fractals
element_type | both | loc(src) == acc => not present(pre_quant) => elem(dst) in (i32, f32, f16, bf16) | header verifier | there is no such conversion
element_type | both | loc(src) == acc => not present(pre_quant) => (elem(dst) == i32) == (elem(src) == i32) | header | there is no such conversion
element_type | a2a3 | present(pre_quant) => elem(dst) in (i8, ui8) or (elem(src) == i32 and elem(dst) == f16) | header verifier | there is no such conversion
element_type | a5 | present(pre_quant) => elem(src) == i32 => elem(dst) in (i8, ui8, f16, bf16) | header verifier | there is no such conversion
attribute | both | present(pre_quant) => loc(src) == acc | header verifier | it is for tiles that come from acc
atomic | a5 | attr(atomicType) == atomic_add => elem(dst) != bf16 | codegen | the code generator says that there is none
erratum | a2a3 | loc(src) == vec => order(dst) == nd => blayout(src) == col_major => cols(src) == 1 => stride(dst, 2) == 1 | issue | the column is stored without gaps
""",
)
bind(
    "tload",
    """
attribute | a5 | elem(dst) in (i64, ui64) => pad(dst) in ('0', '1') | header verifier | numbers of 64 bits are padded with zeros only
dma | a2a3 | loc(dst) == vec => rows(dst) < 4096 | header | the count of rows has 12 bits
dma | both | loc(dst) == mat => slayout(dst) == row_major => rows(dst) <= 16384 | header | the count of rows has 14 bits
""",
)
bind(
    "tstore",
    """
attribute | both | loc(src) != acc => attr(reluPreMode) in ('', no_relu) | header verifier | it is for tiles that come from acc
element_type | both | loc(src) == acc => elem(src) in (i32, f32) | header verifier | the accumulator holds f32 or i32
erratum | both | loc(src) == acc => not full_rows(src) => compact(src) != '0' | issue | the accumulator is read with the stride of all its rows
atomic | both | attr(atomicType) == atomic_add => elem(src) in (f16, f32, i16, i32, i8, bf16) | header | there is no such addition
""",
)
