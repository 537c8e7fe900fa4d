"""Operations of the vector core that move elements to other positions, or fill a tile with a pattern."""

from __future__ import annotations

from .elementwise import ALL, PLAIN_NUMBERS, PRECISION, ROWS, WORDS, V
from .spec import (
    ADD,
    ANY,
    DIV,
    EXPDIF,
    FLOATS,
    MAX,
    MAX_OF,
    MIN,
    MIN_OF,
    MUL,
    NUMBERS,
    PLAIN,
    PROD,
    ROW_MAJOR,
    SUB,
    SUM,
    Instruction,
    define,
    instruction,
)

# Operations of the vector core along rows and columns.
# These are reductions, broadcasts of their results, and functions of two tiles that are valid in different parts.

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


PATTERN = "maskPattern=enum(P0101|P1010|P0001|P0010|P0100|P1000|P1111)"
WITH_F8 = f"{ALL} f8E4M3FN f8E5M2"
HALVES = tuple(name for name in NUMBERS if name in ("float", "half", "bfloat16_t") or name[-4:] in ("16_t", "32_t"))

define(
    "pto.ttrans", f"src:{V}~rows.a2a3 tmp?:{V}=s", f"dst:{V}", rules="transpose", elements=ALL,
    family="transpose", cpp="TTRANS", core="vector",
    runs=Instruction("should", "dst[c, r] = src[r, c]", ANY, group="moves", forms=("dst, src, tmp",)),
)  # fmt: skip
define(
    "pto.tconcat", f"src0:{V} src1:{V}", f"dst:{V}", rules="dtype", elements=ALL,
    family="concat", cpp="TCONCAT", core="vector",
    runs=Instruction(
        "should", "src1 to the right of src0; of each row as many as counts say, in bytes of a count", ANY,
        group="moves", forms=("dst, src0, src1", "dst, src0, src1, counts0, counts1"),
    ),
)  # fmt: skip
define(
    "pto.tconcatidx", f"src0:{V} src1:{V} idx0:{V} idx1:{V}", f"dst:{V}=rw", elements=ALL,
    family="concat", fn="index", cpp="TCONCAT", core="vector",
)  # fmt: skip
for _name, _rank in (("tfillpad", "must"), ("tfillpad_inplace", "should"), ("tfillpad_expand", "should")):
    define(
        f"pto.{_name}", f"src:{V}|mat", f"dst:{V}|mat", rules="dtype", family="fillpad", fn=_name[9:] or "copy",
        cpp=_name.upper(),
        runs=Instruction(_rank, "src's valid region, and the pad value of dst everywhere else", ANY, group="moves"),
    )  # fmt: skip

# --- patterns

define(
    "pto.tci", f"start:int tmp?:{V}=s", f"dst:{V}", attrs="descending=bool", rules="number", elements="i16 i32",
    family="fill", fn="sequence", cpp="TCI", core="vector",
    runs=Instruction(
        "should", "start, start + 1, ...; or descending", NUMBERS, group="indices", layouts=ROW_MAJOR, pipe="S",
        forms=("dst, start", "dst, start, tmp"),
    ),
)  # fmt: skip
define(
    "pto.ttri", "diagonal:int", f"dst:{ROWS}", attrs="upperOrLower=int", inner="upperOrLower",
    elements=f"{WORDS} | {ALL}", family="fill", fn="triangle", cpp="TTRI", core="vector",
    runs=Instruction(
        "rest", "1 in the lower or upper triangle, else 0", NUMBERS, group="indices", layouts=ROW_MAJOR
    ),
)  # fmt: skip
define(
    "pto.trandom", "key0:int key1:int ctr0:int ctr1:int ctr2:int ctr3:int", f"dst:{V}",
    attrs="rounds=int", inner="rounds", only="a5", elements="i32", family="fill", fn="random", cpp="TRANDOM",
    core="vector",
    runs=Instruction(
        "rest", "Philox 4x32, seven or ten rounds; 64 blocks make up to 256 columns", ("int32_t", "uint32_t"),
        group="indices", layouts=ROW_MAJOR, forms=("dst, key, counter",),
    ),
)  # fmt: skip

# --- gathers and scatters

define(
    "pto.tgather",
    (f"src:{V} idx:{V} tmp?:{V}=s", f"src:{V}", f"src:{V} k:scalar tmp:{V}=s"),
    (f"dst:{V}", f"dst:{V}", f"dst:{V} cdst:{V}"),
    attrs=f"{PATTERN} axis=str cmpMode=enum(eq|ne|lt|le|gt|ge) offset=int",
    inner="maskPattern cmpMode", inner_comma=True, trailing="axis", rules=(
        "index a2a3:compared(a2a3,eq,i32,f16,f32) a2a3:compared(a2a3,other,f16,f32) "
        "a5:compared(a5,eq,i16,i32,f16,f32) a5:compared(a5,other,i16,i32,f16,f32) compare_mode"
    ),
    scratch="a2a3:like(idx) a2a3:same_extents(idx)", elements=f"i16 i32 f16 bf16 f32 | {WITH_F8}",
    family="gather", fn="index", cpp="TGATHER", core="vector",
    runs=Instruction(
        "should",
        "elements by index; columns or rows by a mask pattern; positions of those that pass a comparison; "
        "the rows of all ranks",
        ANY, group="indexed", types="any; index: integers", layouts=ROW_MAJOR, writes=("dst", "count"),
        forms=("dst, src, index", "dst, src", "dst, src, threshold, count, tmp, offset", "group, global, stage"),
    ),
)  # fmt: skip
define(
    "pto.tgatherb", f"src:{V} offsets:{V}", f"dst:{ROWS}", elements=f"| {ALL}",
    family="gather", fn="block", cpp="TGATHERB", core="vector",
    runs=Instruction("rest", "blocks of 32 bytes by byte offset", ANY, group="indexed", layouts=ROW_MAJOR),
)  # fmt: skip
define(
    "pto.tscatter", (f"src:{V} idx:{V}", f"src:{V}"), f"dst:{V}=rw",
    attrs=f"{PATTERN} axis=str", inner="maskPattern", inner_comma=True, trailing="axis", rules="equal(src,dst)",
    elements=ALL, family="scatter", fn="index", cpp="TSCATTER", core="vector",
    runs=Instruction(
        "should", "elements to an index; columns or rows to some by a mask pattern; rows to the ranks", ANY,
        group="indexed", types="any; index: integers", layouts=ROW_MAJOR, pipe="S, V",
        forms=("dst, src, index", "dst, src", "group, global, stage"),
    ),
)  # fmt: skip
define(
    "pto.mgather", ("src:part idx:any", "src:part idx:any scratch:part"), "dst:tile@vec|mat",
    attrs="coalesce=enum(row|elem) gatherOob=enum(undefined|clamp|wrap|zero)", rules="coalesced",
    elements=f"{ALL} | {WITH_F8}",
    family="gather", fn="gm", cpp="MGATHER",
    runs=Instruction(
        "should", "rows or elements of global memory by index, which may be in global memory too", ANY,
        group="indexed", types="any; index: i32", pipe="MTE2, S", forms=("dst, global, index", "dst, global, global"),
    ),
)  # fmt: skip
define(
    "pto.mscatter", "src:tile@vec idx:tile@vec", "dst:part",
    attrs=(
        "coalesce=enum(row|elem) scatterAtomicOp=enum(none|add|max|min) scatterOob=enum(undefined|skip|clamp|wrap) "
        "scatterConflict=enum(last|default)"
    ),
    rules="coalesced_where_refined", elements=f"{ALL} | {WITH_F8}", family="scatter", fn="gm", cpp="MSCATTER",
    runs=Instruction(
        "should", "rows or elements to global memory; also atomically", ANY, group="indexed",
        types="any, numbers if atomic; index: i32", pipe="MTE3, S", writes=(), forms=("global, src, index",),
    ),
)  # fmt: skip

# --- sorting and packing

define(
    "pto.tsort32", f"src:{ROWS} idx:{V} tmp?:{V}=s", f"dst:{ROWS}", rules="equal(src,dst)", elements="f16 f32",
    family="sort", fn="blocks", cpp="TSORT32", core="vector",
    runs=Instruction(
        "should", "groups of 32, descending, as pairs of value and index", ("float", "half"), group="sorting",
        types="float, half; index: u32", layouts=ROW_MAJOR, forms=("dst, src, index",),
    ),
)  # fmt: skip
_LISTS = ("dst, executed, tmp, src0, src1", "dst, executed, tmp, src0, src1, src2")
define(
    "pto.tmrgsort",
    (f"src:{V} block_len:int", f"src0:{V} src1:{V} src2?:{V} src3?:{V} tmp:{V}=s"),
    (f"dst:{V}", f"dst:{V} executed:any"),
    attrs="exhausted=bool", inner="exhausted", rules="equal(src,src0,src1,src2,src3,dst,tmp)",
    scratch="as_wide_as(dst)", elements="f16 f32", family="sort", fn="merge", cpp="TMRGSORT", core="vector",
    runs=Instruction(
        "should", "merges sorted lists of pairs: blocks of one tile, or two to four tiles", ("float", "half"),
        group="sorting", layouts=ROW_MAJOR, writes=("dst", "tmp"),
        forms=("dst, src, block_length", *_LISTS, "dst, executed, tmp, src0, src1, src2, src3"),
    ),
)  # fmt: skip
for _name, _does, _forms in (
    ("TINTERLEAVE", "the elements of two tiles in turn", ("dst1, dst0, src1, src0",)),
    ("TDEINTERLEAVE", "even and odd elements apart", ("dst1, dst0, src1, src0", "dst1, dst0, src")),
):
    instruction(
        Instruction("rest", _does, ANY, _name, "rearranging", _forms, layouts=ROW_MAJOR, writes=("dst1", "dst0"))
    )
define(
    "pto.tpack", f"src:{V}", f"dst:{V}", elements="i16 i32", family="pack", cpp="TPACK", core="vector",
    runs=Instruction(
        "rest", "the low bits of each element", HALVES, group="rearranging", layouts=ROW_MAJOR,
        types="numbers of 16 or 32 bits to narrower integers",
    ),
)  # fmt: skip
instruction(
    Instruction("rest", "sums of neighbours in a row", NUMBERS, "TPAIRREDUCESUM", "rearranging", ("dst, src",)),
    layouts=ROW_MAJOR,
)
define(
    "pto.thistogram", f"src:{V} idx:{V}", f"dst:{V}=rw", attrs="byte=int isMSB=bool", only="a5",
    elements="ui16 ui32", family="histogram", cpp="THISTOGRAM", core="vector",
    runs=Instruction(
        "rest", "how often each byte, or a smaller one, occurs", ("uint16_t", "uint32_t"), group="rearranging",
        types="u16, u32 to u32", layouts=ROW_MAJOR, forms=("dst, src, index",),
    ),
)  # fmt: skip
