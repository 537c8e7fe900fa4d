"""Scalar arithmetic (`arith`, `math`), which computes addresses, extents and loop bounds."""

from __future__ import annotations

from .spec import Meaning, define

define("arith.constant", formats="C", attrs="value=any", results=1, family="constant")

# Operands are {lhs}, {rhs}, {in} in C++ ({u}: a cast to the unsigned type) and {a}, {b}, {x} in Python ({ua}, {ub}: as
# unsigned numbers). Signless integers are computed in their own width, floats rounded to their type: where the
# expression has to be for that, the function converts.
_INTEGER = (
    ("addi", "{lhs} + {rhs}", Meaning("add", "{a} + {b}", converts="i")),
    ("subi", "{lhs} - {rhs}", Meaning("sub", "{a} - {b}", converts="i")),
    ("muli", "{lhs} * {rhs}", Meaning("mul", "{a} * {b}", converts="i")),
    ("divsi", "{lhs} / {rhs}", Meaning("div", "quotient({a}, {b})")),
    ("remsi", "{lhs} % {rhs}", Meaning("rem", "rest({a}, {b})")),
    ("divui", "{u}({lhs}) / {u}({rhs})", Meaning("divu", "{ua} // {ub}", converts="i")),
    ("remui", "{u}({lhs}) % {u}({rhs})", Meaning("remu", "{ua} % {ub}", converts="i")),
    ("floordivsi", "{lhs} / {rhs} - (({lhs} % {rhs} != 0) && (({lhs} < 0) != ({rhs} < 0)))",
     Meaning("floordiv", "{a} // {b}")),
    ("ceildivsi", "{lhs} / {rhs} + (({lhs} % {rhs} != 0) && (({lhs} < 0) == ({rhs} < 0)))",
     Meaning("ceildiv", "-(-{a} // {b})")),
    ("ceildivui", "{u}({lhs}) / {u}({rhs}) + ({u}({lhs}) % {u}({rhs}) != 0)",
     Meaning("ceildivu", "-(-{ua} // {ub})", converts="i")),
    ("minsi", "{lhs} < {rhs} ? {lhs} : {rhs}", Meaning("min", "min({a}, {b})")),
    ("maxsi", "{lhs} > {rhs} ? {lhs} : {rhs}", Meaning("max", "max({a}, {b})")),
    ("minui", "{u}({lhs}) < {u}({rhs}) ? {lhs} : {rhs}", Meaning("minu", "min({ua}, {ub})", converts="i")),
    ("maxui", "{u}({lhs}) > {u}({rhs}) ? {lhs} : {rhs}", Meaning("maxu", "max({ua}, {ub})", converts="i")),
    ("andi", "{lhs} & {rhs}", Meaning("and", "{a} & {b}")), ("ori", "{lhs} | {rhs}", Meaning("or", "{a} | {b}")),
    ("xori", "{lhs} ^ {rhs}", Meaning("xor", "{a} ^ {b}")),
    ("shli", "{lhs} << {rhs}", Meaning("shl", "{a} << {b}", converts="i")),
    ("shrsi", "{lhs} >> {rhs}", Meaning("shr", "{a} >> {b}")),
    ("shrui", "{u}({lhs}) >> {rhs}", Meaning("shru", "{ua} >> {b}", converts="i")),
)  # fmt: skip
for _name, _cpp, _function in _INTEGER:
    define(
        f"arith.{_name}", "lhs:index rhs:index", formats="$lhs , $rhs [? overflow A:overflow ?] {} : T=",
        attrs="overflow=any", results=1, rules="scalar", family="arith", computes=_function, cpp=_cpp,
    )  # fmt: skip

_FLOAT = (
    ("addf", "{lhs} + {rhs}", Meaning("add", "{a} + {b}", converts="f")),
    ("subf", "{lhs} - {rhs}", Meaning("sub", "{a} - {b}", converts="f")),
    ("mulf", "{lhs} * {rhs}", Meaning("mul", "{a} * {b}", converts="f")),
    ("divf", "{lhs} / {rhs}", Meaning("div", "real_quotient({a}, {b})", converts="f")),
    ("remf", "__builtin_fmod({lhs}, {rhs})", Meaning("rem", "real(math.fmod, {a}, {b})", converts="f")),
    ("minimumf", "{lhs} != {lhs} || {lhs} < {rhs} ? {lhs} : {rhs}", Meaning("min", "lesser({a}, {b})")),
    ("maximumf", "{lhs} != {lhs} || {lhs} > {rhs} ? {lhs} : {rhs}", Meaning("max", "greater({a}, {b})")),
    ("minnumf", "__builtin_fmin({lhs}, {rhs})", Meaning("fmin", "lesser({a}, {b}, numbers=True)")),
    ("maxnumf", "__builtin_fmax({lhs}, {rhs})", Meaning("fmax", "greater({a}, {b}, numbers=True)")),
)
for _name, _cpp, _function in _FLOAT:
    define(
        f"arith.{_name}", "lhs:float rhs:float", formats="$lhs , $rhs [? fastmath A:fastmath ?] {} : T=",
        attrs="fastmath=any", results=1, rules="scalar", family="arith", computes=_function, cpp=_cpp,
    )  # fmt: skip
define(
    "arith.negf", "in:float", formats="$in [? fastmath A:fastmath ?] {} : T=", attrs="fastmath=any",
    results=1, rules="scalar", family="arith", computes=Meaning("neg", "-{x}"), cpp="-{in}",
)  # fmt: skip
for _kind, _cpp, _function in (
    ("float", "__builtin_fabs({in})", Meaning("absf", "abs({x})")),
    ("index", "{in} < 0 ? -{in} : {in}", Meaning("absi", "abs({x})")),
    ("float", "__builtin_sqrt({in})", Meaning("sqrt", "real(math.sqrt, {x})", converts="f")),
    ("float", "__builtin_exp({in})", Meaning("exp", "real(math.exp, {x})", converts="f")),
    ("float", "__builtin_log({in})", Meaning("log", "real(math.log, {x})", converts="f")),
):
    define(
        f"math.{_function.name}", f"in:{_kind}", formats="$in {} : T=", attrs="fastmath=any", results=1,
        rules="scalar", family="arith", computes=_function, cpp=_cpp,
    )  # fmt: skip

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
    "builtin.unrealized_conversion_cast", "in:any", formats="$in : T$in to T=", results=1, family="cast",
    fn="reinterpret",
)  # fmt: skip
for _name in _CASTS:
    define(
        f"arith.{_name}", "in:scalar", formats="$in {} : T$in to T=", attrs="fastmath=any", results=1, family="cast",
        fn=_name,
    )  # fmt: skip
