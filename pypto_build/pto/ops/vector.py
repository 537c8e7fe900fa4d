"""Operations of the vector core on tiles in `vec`: element by element, reductions, broadcasts, selection, sorting."""

from __future__ import annotations

from .spec import define

V = "tile@vec"
PRECISION = "precisionType=enum(default|high_precision)"
EXPAND_ATTRS = "src1Col=int src0eqdst=bool highPrecision=bool"

# name, instruction, function
_BINARY = (
    ("tadd", "TADD", "add"), ("tsub", "TSUB", "sub"), ("tmul", "TMUL", "mul"), ("tdiv", "TDIV", "div"),
    ("tmax", "TMAX", "max"), ("tmin", "TMIN", "min"), ("tfmod", "TFMOD", "fmod"), ("tand", "TAND", "and"),
    ("tor", "TOR", "or"), ("tshl", "TSHL", "shl"), ("tshr", "TSHR", "shr"),
)  # fmt: skip
for _name, _cpp, _fn in _BINARY:
    define(
        f"pto.{_name}", f"src0:{V} src1:{V}", f"dst:{V}",
        attrs=PRECISION, rule="same", family="elementwise", fn=_fn, cpp=_cpp, core="vector",
    )  # fmt: skip

_BINARY_TMP = (("trem", "TREM", "rem"), ("txor", "TXOR", "xor"), ("tprelu", "TPRELU", "prelu"))
for _name, _cpp, _fn in _BINARY_TMP:
    define(
        f"pto.{_name}", f"src0:{V} src1:{V} tmp:{V}=s", f"dst:{V}",
        attrs=PRECISION, rule="same", family="elementwise", fn=_fn, cpp=_cpp, core="vector",
    )  # fmt: skip
define(
    "pto.tpow", f"src0:{V} src1:{V} tmp?:{V}=s", f"dst:{V}",
    attrs=PRECISION, rule="same", family="elementwise", fn="pow", cpp="TPOW", core="vector",
)  # fmt: skip

# where both operands are valid the function, where one is, its value
for _name, _cpp, _fn in (
    ("tpartadd", "TPARTADD", "add"), ("tpartmul", "TPARTMUL", "mul"),
    ("tpartmax", "TPARTMAX", "max"), ("tpartmin", "TPARTMIN", "min"),
):  # fmt: skip
    define(
        f"pto.{_name}", f"src0:{V} src1:{V}", f"dst:{V}",
        rule="dtype", family="partial", fn=_fn, cpp=_cpp, core="vector",
    )  # fmt: skip
for _name, _cpp, _fn in (("tpartargmax", "TPARTARGMAX", "max"), ("tpartargmin", "TPARTARGMIN", "min")):
    define(
        f"pto.{_name}", f"src0:{V} src1:{V} idx0:{V} idx1:{V}", f"dst:{V} dstidx:{V}",
        family="partialarg", fn=_fn, cpp=_cpp, core="vector",
    )  # fmt: skip

_SCALAR = (
    ("tadds", "TADDS", "add"), ("tsubs", "TSUBS", "sub"), ("tmuls", "TMULS", "mul"), ("tmaxs", "TMAXS", "max"),
    ("tmins", "TMINS", "min"), ("tfmods", "TFMODS", "fmod"), ("tlrelu", "TLRELU", "prelu"), ("tands", "TANDS", "and"),
    ("tors", "TORS", "or"), ("tshls", "TSHLS", "shl"), ("tshrs", "TSHRS", "shr"),
)  # fmt: skip
for _name, _cpp, _fn in _SCALAR:
    define(
        f"pto.{_name}", f"src:{V} scalar:scalar", f"dst:{V}",
        attrs=PRECISION, rule="same", family="elementwise", fn=_fn, cpp=_cpp, core="vector",
    )  # fmt: skip
for _name, _cpp, _fn in (("trems", "TREMS", "rem"), ("txors", "TXORS", "xor")):
    define(
        f"pto.{_name}", f"src:{V} scalar:scalar tmp?:{V}=s", f"dst:{V}",
        attrs=PRECISION, rule="same", family="elementwise", fn=_fn, cpp=_cpp, core="vector",
    )  # fmt: skip
define(
    "pto.tpows", f"src:{V} scalar:scalar tmp?:{V}=s", f"dst:{V}",
    attrs=PRECISION, rule="same", family="elementwise", fn="pow", cpp="TPOWS", core="vector",
)  # fmt: skip
# both operand orders: tile / scalar and scalar / tile
define(
    "pto.tdivs", (f"src:{V} scalar:scalar", f"scalar:scalar src:{V}"), f"dst:{V}",
    attrs=PRECISION, rule="same", family="elementwise", fn="div", cpp="TDIVS", core="vector",
)  # fmt: skip
define(
    "pto.taxpy",
    f"src:{V} scalar:scalar",
    f"dst:{V}=rw",
    rule="shape",
    family="elementwise",
    fn="axpy",
    cpp="TAXPY",
    core="vector",
)
define("pto.texpands", "scalar:scalar", f"dst:{V}|mat", family="fill", fn="scalar", cpp="TEXPANDS")

_UNARY = (
    ("tabs", "TABS", "abs"), ("tneg", "TNEG", "neg"), ("texp", "TEXP", "exp"), ("tlog", "TLOG", "log"),
    ("tsqrt", "TSQRT", "sqrt"), ("trecip", "TRECIP", "recip"), ("trelu", "TRELU", "relu"), ("tnot", "TNOT", "not"),
)  # fmt: skip
for _name, _cpp, _fn in _UNARY:
    define(
        f"pto.{_name}", f"src:{V}", f"dst:{V}",
        attrs=PRECISION, rule="same", family="elementwise", fn=_fn, cpp=_cpp, core="vector",
    )  # fmt: skip
define(
    "pto.trsqrt", f"src:{V} tmp?:{V}=s", f"dst:{V}",
    attrs=PRECISION, rule="same", family="elementwise", fn="rsqrt", cpp="TRSQRT", core="vector",
)  # fmt: skip
ROUND = "NONE|RINT|ROUND|FLOOR|CEIL|TRUNC|ODD|CAST_RINT"
define(
    "pto.tcvt", f"src:{V} tmp?:{V}=s", f"dst:{V}",
    attrs=f"rmode=enum({ROUND}) sat_mode=enum(ON|OFF) satmode=enum(ON|OFF)", inner="rmode sat_mode satmode",
    rule="shape", family="convert", fn="round", cpp="TCVT", core="vector",
)  # fmt: skip

_TERNARY = (("taddc", "TADDC", "add,add"), ("tsubc", "TSUBC", "sub,add"))
for _name, _cpp, _fn in _TERNARY:
    define(
        f"pto.{_name}", f"src0:{V} src1:{V} src2:{V}", f"dst:{V}",
        rule="same", family="ternary", fn=_fn, cpp=_cpp, core="vector",
    )  # fmt: skip
for _name, _cpp, _fn in (("taddsc", "TADDSC", "add,add"), ("tsubsc", "TSUBSC", "sub,add")):
    define(
        f"pto.{_name}", f"src0:{V} scalar:scalar src1:{V}", f"dst:{V}",
        rule="same", family="ternary", fn=_fn, cpp=_cpp, core="vector",
    )  # fmt: skip

for _axis in ("row", "col"):
    _tmp = f" tmp?:{V}=s"
    for _fn in ("sum", "max", "min", "prod"):
        _binary = "isBinary=bool" if (_axis, _fn) == ("col", "sum") else ""
        define(
            f"pto.t{_axis}{_fn}", f"src:{V}{_tmp}", f"dst:{V}", attrs=_binary, inner="isBinary" if _binary else "",
            rule=f"{_axis}reduce", family=f"{_axis}reduce", fn=_fn, cpp=f"T{_axis}{_fn}".upper(), core="vector",
        )  # fmt: skip
    for _fn in ("argmax", "argmin"):
        define(
            f"pto.t{_axis}{_fn}", f"src:{V}{_tmp}", (f"dst:{V}", f"dst:{V} dstidx:{V}"),
            rule=f"{_axis}arg", family=f"{_axis}reduce", fn=_fn, cpp=f"T{_axis}{_fn}".upper(), core="vector",
        )  # fmt: skip
    define(
        f"pto.t{_axis}expand", f"src:{V}", f"dst:{V}",
        rule="dtype", family=f"{_axis}expand", fn="copy", cpp=f"T{_axis}EXPAND".upper(), core="vector",
    )  # fmt: skip
    for _fn in ("add", "sub", "mul", "div", "max", "min", "expdif"):
        _expand_tmp = _tmp if _axis == "row" else ""
        define(
            f"pto.t{_axis}expand{_fn}", f"src0:{V} src1:{V}{_expand_tmp}", f"dst:{V}",
            attrs=f"{EXPAND_ATTRS} {PRECISION}", rule=f"{_axis}expand", family=f"{_axis}expand", fn=_fn,
            cpp=f"T{_axis}EXPAND{_fn}".upper(), core="vector",
        )  # fmt: skip

CMP = "cmpMode=enum(eq|ne|lt|le|gt|ge)"
define(
    "pto.tcmp", f"src0:{V} src1:{V}", f"dst:{V}", attrs=CMP, inner="cmpMode",
    rule="mask", family="compare", fn="tile", cpp="TCMP", core="vector",
)  # fmt: skip
define(
    "pto.tcmps", f"src:{V} scalar:scalar", f"dst:{V}", attrs=CMP, inner="cmpMode",
    rule="mask", family="compare", fn="scalar", cpp="TCMPS", core="vector",
)  # fmt: skip
define(
    "pto.tsel", f"mask:{V} src0:{V} src1:{V} tmp:{V}=s", f"dst:{V}",
    rule="select", family="select", fn="tile", cpp="TSEL", core="vector",
)  # fmt: skip
define(
    "pto.tsels", f"mask:{V} src:{V} tmp:{V}=s scalar:scalar", f"dst:{V}",
    rule="select", family="select", fn="scalar", cpp="TSELS", core="vector",
)  # fmt: skip

PATTERN = "maskPattern=enum(P0101|P1010|P0001|P0010|P0100|P1000|P1111)"
define(
    "pto.tgather",
    (f"src:{V} idx:{V} tmp?:{V}=s", f"src:{V}", f"src:{V} k:scalar tmp:{V}=s"),
    (f"dst:{V}", f"dst:{V}", f"dst:{V} cdst:{V}"),
    attrs=f"{PATTERN} axis=str cmpMode=enum(eq|ne|lt|le|gt|ge) offset=int",
    inner="maskPattern cmpMode", inner_comma=True, trailing="axis",
    family="gather", fn="index", cpp="TGATHER", core="vector",
)  # fmt: skip
define(
    "pto.tgatherb",
    f"src:{V} offsets:{V}",
    f"dst:{V}",
    family="gather",
    fn="block",
    cpp="TGATHERB",
    core="vector",
)
define(
    "pto.tscatter", (f"src:{V} idx:{V}", f"src:{V}"), f"dst:{V}=rw",
    attrs=f"{PATTERN} axis=str", inner="maskPattern", inner_comma=True, trailing="axis",
    family="scatter", fn="index", cpp="TSCATTER", core="vector",
)  # fmt: skip
define(
    "pto.tsort32", f"src:{V} idx:{V} tmp?:{V}=s", f"dst:{V}", family="sort", fn="blocks", cpp="TSORT32", core="vector"
)
define(
    "pto.tmrgsort",
    (
        f"src:{V} block_len:int",
        f"src0:{V} src1:{V} src2?:{V} src3?:{V} tmp:{V}=s",
    ),
    (f"dst:{V}", f"dst:{V} executed:any"),
    attrs="exhausted=bool", inner="exhausted", family="sort", fn="merge", cpp="TMRGSORT", core="vector",
)  # fmt: skip
define(
    "pto.tci",
    f"start:int tmp?:{V}=s",
    f"dst:{V}",
    attrs="descending=bool",
    family="fill",
    fn="sequence",
    cpp="TCI",
    core="vector",
)
define(
    "pto.ttri",
    "diagonal:int",
    f"dst:{V}",
    attrs="upperOrLower=int",
    inner="upperOrLower",
    family="fill",
    fn="triangle",
    cpp="TTRI",
    core="vector",
)
define(
    "pto.trandom", "key0:int key1:int ctr0:int ctr1:int ctr2:int ctr3:int", f"dst:{V}",
    attrs="rounds=int", inner="rounds", family="fill", fn="random", core="vector",
)  # fmt: skip
define(
    "pto.ttrans", f"src:{V} tmp?:{V}=s", f"dst:{V}", rule="transpose", family="transpose", cpp="TTRANS", core="vector"
)
define("pto.tconcat", f"src0:{V} src1:{V}", f"dst:{V}", rule="dtype", family="concat", cpp="TCONCAT", core="vector")
for _name, _cpp in (
    ("tfillpad", "TFILLPAD"),
    ("tfillpad_inplace", "TFILLPAD_INPLACE"),
    ("tfillpad_expand", "TFILLPAD_EXPAND"),
):
    define(
        f"pto.{_name}", f"src:{V}|mat", f"dst:{V}|mat", rule="dtype", family="fillpad", fn=_name[9:] or "copy", cpp=_cpp
    )
define(
    "pto.tconcatidx",
    f"src0:{V} src1:{V} idx0:{V} idx1:{V}",
    f"dst:{V}=rw",
    family="concat",
    fn="index",
    cpp="TCONCAT",
    core="vector",
)
define("pto.tpack", f"src:{V}", f"dst:{V}", family="pack", cpp="TPACK", core="vector")
QUANT = "INT8_SYM|INT8_ASYM|MXFP8|MXFP4_E2M1"
define(
    "pto.tquant",
    (f"src:{V} scale:{V}", f"src:{V} scale:{V} offset:{V}", f"src:{V} scale:{V} offset:{V}", f"src:{V} scale:{V}"),
    (f"dst:{V}", f"dst:{V}", f"dst:{V} tmp:{V}=s", f"dst:{V} tmp:{V}=s"),
    attrs=f"quantType=enum({QUANT}) quant_type=enum({QUANT})",
    family="quantize", fn="scale", cpp="TQUANT", core="vector",
)  # fmt: skip
define(
    "pto.tquant.mx", f"src:{V}", f"dst:{V} exp:{V} max:{V}=s scaling:{V}",
    attrs=f"quantType=enum({QUANT}) quant_type=enum({QUANT}) quant_scale_mode=any",
    family="quantize", fn="mx", core="vector",
)  # fmt: skip
define(
    "pto.tdequant",
    f"src:{V} scale:{V} offset:{V}",
    f"dst:{V}",
    family="quantize",
    fn="restore",
    cpp="TDEQUANT",
    core="vector",
)
define(
    "pto.thistogram",
    f"src:{V} idx:{V}",
    f"dst:{V}=rw",
    attrs="byte=int isMSB=bool",
    family="histogram",
    core="vector",
)
