"""Scalar arithmetic (`arith`, `math`): what addresses, extents and loop bounds are computed with."""

from __future__ import annotations

from .spec import define

define("arith.constant", formats="C", attrs="value=any", results=1, family="constant")

# name, C++ expression, function; signless integers are computed in their own width
_INTEGER = (
    ("addi", "{lhs} + {rhs}", "add"), ("subi", "{lhs} - {rhs}", "sub"), ("muli", "{lhs} * {rhs}", "mul"),
    ("divsi", "{lhs} / {rhs}", "div"), ("remsi", "{lhs} % {rhs}", "rem"),
    ("divui", "{u}({lhs}) / {u}({rhs})", "divu"), ("remui", "{u}({lhs}) % {u}({rhs})", "remu"),
    ("floordivsi", "{lhs} / {rhs} - (({lhs} % {rhs} != 0) && (({lhs} < 0) != ({rhs} < 0)))", "floordiv"),
    ("ceildivsi", "{lhs} / {rhs} + (({lhs} % {rhs} != 0) && (({lhs} < 0) == ({rhs} < 0)))", "ceildiv"),
    ("ceildivui", "{u}({lhs}) / {u}({rhs}) + ({u}({lhs}) % {u}({rhs}) != 0)", "ceildivu"),
    ("minsi", "{lhs} < {rhs} ? {lhs} : {rhs}", "min"), ("maxsi", "{lhs} > {rhs} ? {lhs} : {rhs}", "max"),
    ("minui", "{u}({lhs}) < {u}({rhs}) ? {lhs} : {rhs}", "minu"),
    ("maxui", "{u}({lhs}) > {u}({rhs}) ? {lhs} : {rhs}", "maxu"),
    ("andi", "{lhs} & {rhs}", "and"), ("ori", "{lhs} | {rhs}", "or"), ("xori", "{lhs} ^ {rhs}", "xor"),
    ("shli", "{lhs} << {rhs}", "shl"), ("shrsi", "{lhs} >> {rhs}", "shr"), ("shrui", "{u}({lhs}) >> {rhs}", "shru"),
)  # fmt: skip
for _name, _cpp, _fn in _INTEGER:
    define(
        f"arith.{_name}", "lhs:index rhs:index", formats="$lhs , $rhs [? overflow A:overflow ?] {} : T=",
        attrs="overflow=any", results=1, rules="scalar", family="arith", fn=_fn, cpp=_cpp,
    )  # fmt: skip

_FLOAT = (
    ("addf", "{lhs} + {rhs}", "add"), ("subf", "{lhs} - {rhs}", "sub"), ("mulf", "{lhs} * {rhs}", "mul"),
    ("divf", "{lhs} / {rhs}", "div"), ("remf", "__builtin_fmod({lhs}, {rhs})", "rem"),
    ("minimumf", "{lhs} != {lhs} || {lhs} < {rhs} ? {lhs} : {rhs}", "min"),
    ("maximumf", "{lhs} != {lhs} || {lhs} > {rhs} ? {lhs} : {rhs}", "max"),
    ("minnumf", "__builtin_fmin({lhs}, {rhs})", "fmin"), ("maxnumf", "__builtin_fmax({lhs}, {rhs})", "fmax"),
)  # fmt: skip
for _name, _cpp, _fn in _FLOAT:
    define(
        f"arith.{_name}", "lhs:float rhs:float", formats="$lhs , $rhs [? fastmath A:fastmath ?] {} : T=",
        attrs="fastmath=any", results=1, rules="scalar", family="arith", fn=_fn, cpp=_cpp,
    )  # fmt: skip
define(
    "arith.negf",
    "in:float",
    formats="$in [? fastmath A:fastmath ?] {} : T=",
    attrs="fastmath=any",
    results=1,
    rules="scalar",
    family="arith",
    fn="neg",
    cpp="-{in}",
)
for _name, _kind, _cpp in (
    ("absf", "float", "__builtin_fabs({in})"), ("absi", "index", "{in} < 0 ? -{in} : {in}"),
    ("sqrt", "float", "__builtin_sqrt({in})"), ("exp", "float", "__builtin_exp({in})"),
    ("log", "float", "__builtin_log({in})"),
):  # fmt: skip
    define(
        f"math.{_name}",
        f"in:{_kind}",
        formats="$in {} : T=",
        attrs="fastmath=any",
        results=1,
        rules="scalar",
        family="arith",
        fn=_name,
        cpp=_cpp,
    )

define(
    "arith.cmpi", "lhs:index rhs:index", formats="W:predicate , $lhs , $rhs {} : T$lhs",
    attrs="predicate!=enum(eq|ne|slt|sle|sgt|sge|ult|ule|ugt|uge)",
    results=1, result="i1", rules="compare", family="arith_compare", fn="int",
)  # fmt: skip
define(
    "arith.cmpf", "lhs:float rhs:float", formats="W:predicate , $lhs , $rhs [? fastmath A:fastmath ?] {} : T$lhs",
    attrs="predicate!=enum(false|oeq|ogt|oge|olt|ole|one|ord|ueq|ugt|uge|ult|ule|une|uno|true) fastmath=any",
    results=1, result="i1", rules="compare", family="arith_compare", fn="float",
)  # fmt: skip
define(
    "arith.select", "cond:bool on_true:any on_false:any", formats="$cond , $on_true , $on_false {} : T=",
    results=1, rules="scalar", family="arith_select",
)  # fmt: skip

_CASTS = (
    "index_cast",
    "index_castui",
    "extsi",
    "extui",
    "trunci",
    "extf",
    "truncf",
    "sitofp",
    "uitofp",
    "fptosi",
    "fptoui",
    "bitcast",
)
define(
    "builtin.unrealized_conversion_cast",
    "in:any",
    formats="$in : T$in to T=",
    results=1,
    family="cast",
    fn="reinterpret",
)
for _name in _CASTS:
    define(
        f"arith.{_name}",
        "in:scalar",
        formats="$in {} : T$in to T=",
        attrs="fastmath=any",
        results=1,
        family="cast",
        fn=_name,
    )
