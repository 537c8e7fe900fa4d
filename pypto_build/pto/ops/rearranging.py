"""Operations of the vector core that put elements elsewhere, and those that fill a tile with a pattern."""

from __future__ import annotations

from .elementwise import ALL, ROWS, WORDS, V
from .instruction import ANY, NUMBERS, ROW_MAJOR, Instruction, instruction
from .spec import define

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
