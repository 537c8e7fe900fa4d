"""Operations of the vector core on elements at the same position: arithmetic, conversion, comparison, choice.

A row of a family has the function, its rank by use, the function in words, and the element types. The types are those
of the headers, and those of the hardware on a2a3 and a5, as ptoas 0.48 has them. Signed, unsigned and signless integers
of one width count alike.
"""

from __future__ import annotations

from collections.abc import Callable

from .spec import (  # fmt: skip
    ADD,
    ADD_ADD,
    AND,
    DIV,
    FLOATS,
    FMOD,
    INTS,
    MAX,
    MIN,
    MUL,
    NUMBERS,
    OR,
    PLAIN,
    POW,
    PRELU,
    REM,
    ROW_MAJOR,
    SHL,
    SHR,
    SUB,
    SUB_ADD,
    XOR,
    Instruction,
    Meaning,
    define,
    instruction,
)

V = "tile@vec"
ROWS = "tile@vec~rows"
PRECISION = "precisionType=enum(default|high_precision)"
ALL = "i8 i16 i32 f16 bf16 f32"
PLAIN_NUMBERS = "i8 i16 i32 f16 f32"
WORDS = "i16 i32 f16 f32"  # numbers of 16 and 32 bits
SHORT = "i8 i16 | i8 i16 i32"


def _runs(rank: str, does: str, takes: tuple[str, ...]) -> Instruction:
    return Instruction(rank, f"dst = {does}", takes, group="element-wise")


def _family(operands: str, usual: str, scratch_tile: str = "") -> Callable[..., None]:
    """Return a function that adds a row of operations on these operands.

    Tiles and scratch tile are the usual ones unless the row has its own.
    """

    def add(
        name: str, function: Meaning, rank: str, does: str, takes: tuple[str, ...], elements: str,
        *, tile: str = usual, tmp: str = "", scratch: str = "",
    ) -> None:  # fmt: skip
        ins = f"{operands.format(tile=tile)} {tmp and f'{tmp}:{scratch_tile or tile}=s'}"
        define(
            f"pto.{name}", ins, f"dst:{tile}", attrs=PRECISION, rules="same", scratch=scratch, elements=elements,
            family="elementwise", computes=function, cpp=name.upper(), core="vector", runs=_runs(rank, does, takes),
        )  # fmt: skip

    return add


#: Operations of two tiles, of a tile and a number, and of one tile.
binary = _family("src0:{tile} src1:{tile}", ROWS)
with_number = _family("src:{tile} scalar:scalar", V)
unary = _family("src:{tile}", ROWS, scratch_tile=V)

binary("tadd", ADD, "must", "src0 + src1", NUMBERS, f"{WORDS} | {ALL}")
binary("tsub", SUB, "must", "src0 - src1", NUMBERS, f"{WORDS} | {PLAIN_NUMBERS}")
binary("tmul", MUL, "must", "src0 * src1", NUMBERS, WORDS)
binary("tdiv", DIV, "must", "src0 / src1", NUMBERS, f"f16 f32 | {WORDS}")
binary("tmax", MAX, "must", "max(src0, src1)", NUMBERS, f"{WORDS} | {PLAIN_NUMBERS}")
binary("tmin", MIN, "should", "min(src0, src1)", NUMBERS, f"{WORDS} | {ALL}")
binary("tand", AND, "should", "src0 & src1", INTS, SHORT)
binary("tor", OR, "should", "src0 | src1", INTS, SHORT)
binary("txor", XOR, "rest", "src0 ^ src1", INTS, SHORT, tmp="tmp", scratch="a2a3:like(dst) a2a3:same_extents(dst)")
binary("tshl", SHL, "should", "src0 << src1", INTS, "i8 i16 i32")
binary("tshr", SHR, "should", "src0 >> src1, with the sign if there is one", INTS, "i8 i16 i32")
binary(
    "tprelu", PRELU, "rest", "src0 > 0 ? src0 : src0 * src1", FLOATS, "f16 f32", tile=V, tmp="tmp", scratch="a2a3:bits"
)
binary(
    "trem", REM, "rest", "src0 - floor(src0 / src1) * src1", NUMBERS, f"i32 f32 | {WORDS}", tmp="tmp",
    scratch="a2a3:like(dst) a2a3:covers(dst,2)",
)  # fmt: skip
binary("tfmod", FMOD, "rest", "src0 - trunc(src0 / src1) * src1", NUMBERS, WORDS)
binary(
    "tpow", POW, "rest", "src0 to the power of src1", NUMBERS, f"i8 i16 i32 f32 | {PLAIN_NUMBERS}", tmp="tmp?",
    scratch="with_floats(src0) same_extents(dst)",
)  # fmt: skip
for _name, _does in (("TADDRELU", "src0 + src1"), ("TSUBRELU", "src0 - src1")):
    instruction(_runs("rest", f"max({_does}, 0)", NUMBERS), name=_name, forms=("dst, src0, src1",))

with_number("tadds", ADD, "must", "src + scalar", NUMBERS, f"{WORDS} | {ALL}")
with_number("tsubs", SUB, "must", "src - scalar", NUMBERS, f"{WORDS} | {ALL}")
with_number("tmuls", MUL, "must", "src * scalar", NUMBERS, f"{WORDS} | {ALL}")
with_number("tmaxs", MAX, "should", "max(src, scalar)", NUMBERS, f"{WORDS} | {ALL}")
with_number("tmins", MIN, "should", "min(src, scalar)", NUMBERS, f"{WORDS} | {ALL}")
with_number("tands", AND, "should", "src & scalar", INTS, SHORT, tile=ROWS)
with_number("tors", OR, "should", "src | scalar", INTS, SHORT, tile=ROWS)
with_number("txors", XOR, "rest", "src ^ scalar", INTS, SHORT, tile=ROWS, tmp="tmp?", scratch="a2a3:like(dst)")
with_number("tshls", SHL, "should", "src << scalar", INTS, "i8 i16 i32 | i8 i16 i32 i64")
with_number("tshrs", SHR, "should", "src >> scalar", INTS, "i16 i32 | i8 i16 i32", tile=ROWS)
with_number("tlrelu", PRELU, "rest", "src > 0 ? src : src * scalar", FLOATS, "f16 f32")
with_number(
    "trems", REM, "rest", "src - floor(src / scalar) * scalar", NUMBERS, f"i32 f32 | {WORDS}", tile=ROWS, tmp="tmp?",
    scratch="a2a3:like(dst) a2a3:covers(dst,1)",
)  # fmt: skip
with_number("tfmods", FMOD, "rest", "src - trunc(src / scalar) * scalar", NUMBERS, WORDS, tile=ROWS)
with_number(
    "tpows", POW, "rest", "src to the power of scalar", NUMBERS, f"i8 i16 i32 f32 | {PLAIN_NUMBERS}", tile=ROWS,
    tmp="tmp?", scratch="with_floats(src) same_extents(dst)",
)  # fmt: skip
define(  # both operand orders: tile / scalar and scalar / tile
    "pto.tdivs", (f"src:{V} scalar:scalar", f"scalar:scalar src:{V}"), f"dst:{V}", attrs=PRECISION, rules="same",
    elements=f"{WORDS} | {PLAIN_NUMBERS}", family="elementwise", computes=DIV, cpp="TDIVS", core="vector",
    runs=_runs("should", "src / scalar, or scalar / src", NUMBERS),
)  # fmt: skip
define(
    "pto.texpands", "scalar:scalar", f"dst:{V}|mat~rows.a2a3", rules="number", elements=f"i16 i32 f16 bf16 f32 | {ALL}",
    family="fill", fn="scalar", cpp="TEXPANDS",
    runs=Instruction("must", "every element is the scalar", NUMBERS, group="element-wise"),
)  # fmt: skip

unary("texp", Meaning("exp", "torch.exp({a})", "-", precise=True), "must", "exp(src)", FLOATS, "f16 f32")
unary("tlog", Meaning("log", "torch.log({a})", "-", precise=True), "should", "log(src)", FLOATS, "f16 f32")
unary("tsqrt", Meaning("sqrt", "square_root({a})", "-", precise=True), "must", "sqrt(src)", FLOATS, "f16 f32")
unary(  # of 16 bits torch rounds in between, or not, as elements lie in memory
    "trsqrt", Meaning("rsqrt", "torch.rsqrt({a})", "-", halves="torch.rsqrt({a}.float())", precise=True),
    "must", "1 / sqrt(src)", FLOATS, "f16 f32", tmp="tmp?", scratch="with_high_precision",
)  # fmt: skip
unary(
    "trecip",
    Meaning("recip", "torch.reciprocal({a})", "-", precise=True),
    "must",
    "1 / src",
    NUMBERS,
    "f16 f32",
)
unary("tneg", Meaning("neg", "-{a}"), "must", "-src", NUMBERS, f"{WORDS} | {ALL}", tile=V)
unary("tabs", Meaning("abs", "torch.abs({a})"), "should", "|src|", NUMBERS, "f16 f32")
unary("trelu", Meaning("relu", "torch.relu({a})"), "should", "max(src, 0)", NUMBERS, "i32 f16 f32")
unary("tnot", Meaning("not", "-", "~{a}"), "should", "~src", INTS, "i16 | i8 i16 i32")

for _name, _ins, _function, _does, _elements in (
    ("taddc", f"src0:{V} src1:{V} src2:{V}", ADD_ADD, "src0 + src1 + src2", f"{WORDS} | {ALL}"),
    ("tsubc", f"src0:{V} src1:{V} src2:{V}", SUB_ADD, "src0 - src1 + src2", f"{WORDS} | {PLAIN_NUMBERS}"),
    ("taddsc", f"src0:{V} scalar:scalar src1:{V}", ADD_ADD, "src0 + scalar + src1", f"{WORDS} | {ALL}"),
    ("tsubsc", f"src0:{V} scalar:scalar src1:{V}", SUB_ADD, "src0 - scalar + src1", f"{WORDS} | {PLAIN_NUMBERS}"),
):
    define(  # types of the two instructions that they become
        f"pto.{_name}", _ins, f"dst:{V}", rules="same", elements=_elements, family="ternary", computes=_function,
        cpp=_name.upper(), core="vector", runs=_runs("rest", _does, NUMBERS),
    )  # fmt: skip
define(
    "pto.taxpy", f"src:{ROWS} scalar:scalar", f"dst:{ROWS}=rw", rules="shape", elements="f16 f32 | f16 bf16 f32",
    family="elementwise", computes=Meaning("axpy", "{d} + {a} * {b}"), cpp="TAXPY", core="vector",
    runs=_runs("rest", "dst + src * scalar", FLOATS),
)  # fmt: skip
for _name, _does in (
    ("TFUSEDMULADD", "src0 * dst + src1"), ("TFUSEDMULADDRELU", "max(src0 * dst + src1, 0)"),
    ("TMULADDDST", "src0 * src1 + dst"),
):  # fmt: skip
    instruction(_runs("rest", _does, NUMBERS), name=_name, forms=("dst, src0, src1",), also_read=("dst",))

# --- conversion

ROUND = "NONE|RINT|ROUND|FLOOR|CEIL|TRUNC|ODD|CAST_RINT"
define(
    "pto.tcvt", f"src:{V} tmp?:{V}=s", f"dst:{V}",
    attrs=f"rmode=enum({ROUND}) sat_mode=enum(ON|OFF) satmode=enum(ON|OFF)", inner="rmode sat_mode satmode",
    rules="shape", family="convert", fn="round", cpp="TCVT", core="vector",
    runs=Instruction(
        "must", "dst = src in dst's type, rounded and saturated as hardware does", NUMBERS, group="conversion",
        forms=tuple(f"dst, src, {more}" for more in ("mode", "mode, saturation", "tmp, mode", "tmp, mode, saturation")),
        types="any two numbers; fp8 and hif8 to and from float, hif8 from half; int4 and fp4 to and from floats",
        layouts=PLAIN,
    ),
)  # fmt: skip
for _name, _form, _does, _types in (
    ("TADDRELUCONV", "dst, src0, src1", "max(src0 + src1, 0)", "f32 to f16; f16, i16 to i8"),
    ("TSUBRELUCONV", "dst, src0, src1", "max(src0 - src1, 0)", "f32 to f16; f16, i16 to i8"),
    ("TADDDEQRELU", "dst, src0, src1, scale, tmp", "max((src0 + src1) * scale, 0)", "i32 to f16"),
):
    instruction(
        Instruction("rest", f"dst = {_does}, to nearest even, saturated", (), _name, "conversion", (_form,), _types),
        layouts=ROW_MAJOR,
    )
QUANT = "INT8_SYM|INT8_ASYM|MXFP8|MXFP4_E2M1"
define(
    "pto.tquant",
    (f"src:{V} scale:{V}", f"src:{V} scale:{V} offset:{V}", f"src:{V} scale:{V} offset:{V}", f"src:{V} scale:{V}"),
    (f"dst:{V}", f"dst:{V}", f"dst:{V} tmp:{V}=s", f"dst:{V} tmp:{V}=s"),
    attrs=f"quantType=enum({QUANT}) quant_type=enum({QUANT})", elements="f32",
    scratch="a2a3:like(src) a2a3:same_extents(src)", family="quantize", fn="scale", cpp="TQUANT", core="vector",
    runs=Instruction(
        "rest", "dst = round(src * scale + offset), saturated; a scale for each row", ("float",), group="conversion",
        forms=("dst, src, scales", "dst, src, scales, tmp"), types="f32 to i8 or u8",
    ),
)  # fmt: skip
define(
    "pto.tquant.mx", f"src:{V}", f"dst:{V} exp:{V} max:{V}=s scaling:{V}",
    attrs=f"quantType=enum({QUANT}) quant_type=enum({QUANT}) quant_scale_mode=any", only="a5",
    family="quantize", fn="mx", core="vector",
    refused="the CPU runtime does not quantize to microscaled formats; use pto.tquant",
)  # fmt: skip
define(
    "pto.tdequant", f"src:{V} scale:{V} offset:{V}", f"dst:{V}", elements="i8 i16 i32",
    family="quantize", fn="restore", cpp="TDEQUANT", core="vector",
    runs=Instruction(
        "rest", "dst = (src - offset) * scale", INTS, group="conversion", forms=("dst, src, scales, offsets",),
        types="integers to f32",
    ),
)  # fmt: skip

# --- comparison and selection

CMP = "cmpMode=enum(eq|ne|lt|le|gt|ge)"
for _name, _fn, _ins, _form, _does, _elements in (
    ("tcmp", "tile", f"src0:{V} src1:{V}", "mask, src0, src1, mode", "src0 ? src1", f"i32 f16 f32 | {ALL}"),
    ("tcmps", "scalar", f"src:{V} scalar:scalar", "mask, src, scalar, mode", "src ? scalar",
     f"{WORDS} | {PLAIN_NUMBERS}"),
):  # fmt: skip
    define(
        f"pto.{_name}", _ins, f"dst:{V}", attrs=CMP, inner="cmpMode", rules="mask", elements=_elements,
        family="compare", fn=_fn, cpp=_name.upper(), core="vector",
        runs=Instruction(
            "should", f"mask = {_does}, a bit an element; of i32 on a2a3 always equality", NUMBERS, group="comparison",
            forms=(_form,), layouts=ROW_MAJOR, writes=("mask",),
        ),
    )  # fmt: skip
for _name, _fn, _ins, _form, _does, _elements in (
    ("tsel", "tile", f"mask:{V} src0:{ROWS} src1:{ROWS} tmp:{V}=s", "dst, mask, src0, src1, tmp",
     "mask ? src0 : src1", f"i16 i32 f16 bf16 f32 | {ALL}"),
    ("tsels", "scalar", f"mask:{V} src:{ROWS} tmp:{V}=s scalar:scalar", "dst, mask, src, tmp, scalar",
     "mask ? src : scalar", f"{WORDS} | {PLAIN_NUMBERS}"),
):  # fmt: skip
    define(
        f"pto.{_name}", _ins, f"dst:{ROWS}", rules="select", elements=_elements, family="select", fn=_fn,
        cpp=_name.upper(), core="vector",
        runs=Instruction(
            "should", f"dst = {_does}", NUMBERS, group="comparison", forms=(_form,), layouts=ROW_MAJOR,
        ),
    )  # fmt: skip
