"""The definition of an operation: one row of data for all code that handles operations.

From the row follow parsing, printing, the checks (memory spaces, shapes, element types, layouts, scratch), the
assembler's C++, the PyTorch of the translation, and the documentation of the instruction.

Operands have roles. A role is written `name[?|*]:kind[@space|space…][~layout[.platform]][=access]`: `?` may be absent,
`*` any number; kind is one of KINDS. `@` limits the memory spaces of a tile and `~` its layout there (`rows`:
row-major, `plain`: without fractals either), on one platform if named. Access is `r` (read), `w` (written), `rw` or `s`
(scratch: overwritten, content meaningless afterwards). Roles of `ins` default to r, of `outs` to w.

An operation is written in one of its variants. The usual variant is
`ins(%a, %b {inner attributes} : T, T) outs(%d : T) {…}`. Any other has a format, a blank-separated list:

    word or punctuation     itself (a `~` in front: no blank before it when printed)
    $role                   its value, or the comma list of its values
    T$role                  the type of the role's value(s);  T= the result types
    T$a,b                   the types of several roles, comma-separated, as many as there are values
    {}                      the attribute dictionary
    A:name  W:name          an attribute value;  a bare word
    I:name                  a list of integers in brackets
    P(a,b,kw(c))            `(%a, %b, kw(%c) : types)`;  N(a,b) the same without types;  K(a,b) `(a = %x : T, b = …)`
    F                       a function type, of `args` and the results
    V:role                  `%a, %b : T, T`, possibly absent
    R                       a region in braces
    [? … ?]                 present when its first element is
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pypto_build.facts.dtypes import DTYPES

# The instructions of the C++ headers as data: their operands on the CPU, and their effects.
# Most belong to an operation, whose row has them; the others have rows of their own. Tests compare the rows with the
# headers (runtime/include/pto): name by name, form by form, on every element type and layout that a row admits. They
# compare the operands that it reads and writes with those that the checked build records.
# Operands in a form: `dst`, `src`, `mask`, `index`, … are tiles; `global` and `signal` are in global memory.
# `scalar`, `row`, `mode`, … are values; `tmp` is a tile that hardware needs and the CPU does not touch.

FLOATS = tuple(DTYPES[name].cpp for name in ("FP32", "FP16", "BF16"))
INTS = tuple(DTYPES[f"{sign}INT{bits}"].cpp for bits in (8, 16, 32, 64) for sign in ("", "U"))
NUMBERS = FLOATS + INTS
ANY = (*NUMBERS, *(DTYPES[name].cpp for name in ("FP8E4M3FN", "FP8E5M2", "FP8E8M0", "HIF8")))

ROW_MAJOR = ("row-major",)
PLAIN = ("row-major", "column-major")
LAYOUTS = (*PLAIN, "fractal")

#: Operands other than tiles.
VALUES = {
    *("scalar", "start", "row", "col", "mode", "saturation", "tmp", "global", "block_length", "executed", "pipe"),
    *("signal", "value", "op", "comparison", "atomic", "diagonal", "key", "counter", "scale", "address"),
    *("offset", "view", "group", "stage", "session", "peer", "event"),
}


@dataclass(frozen=True)
class Instruction:
    """One instruction; `rank` is must, should or rest, by how often compiled kernels use it.

    `dtypes` are the element types of its data operands, `types` the same in words if needed, `layouts` the layouts of
    its tiles. They are empty where a tile is only named or passed on. `unsupported` is the error message for a use.
    Empty fields of an operation's row follow from the operation.
    """

    rank: str
    does: str
    dtypes: tuple[str, ...] = ()
    name: str = ""
    group: str = ""
    forms: tuple[str, ...] = ()
    types: str = ""
    layouts: tuple[str, ...] = LAYOUTS
    memory: str = "Vec"
    pipe: str = "V"
    also_read: tuple[str, ...] = ()
    unsupported: str = ""
    writes: tuple[str, ...] = ("dst",)

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the tiles that the instruction reads."""
        names = dict.fromkeys(name for form in self.forms for name in operands(form))
        tiles = [name for name in names if name not in VALUES and name not in self.writes]
        return (*tiles, *self.also_read)


def operands(form: str) -> list[str]:
    """Return the names of a form's operands, optional ones included."""
    return re.findall(r"\w+", form.replace("[", "").replace("]", ""))


INSTRUCTIONS: dict[str, Instruction] = {}


def instruction(row: Instruction, **more: object) -> None:
    """Add an instruction to the table."""
    complete = replace(row, **more)  # type: ignore[arg-type]
    if complete.name in INSTRUCTIONS:
        raise ValueError(f"instruction {complete.name} is defined twice")
    INSTRUCTIONS[complete.name] = complete


# Functions of operations on elements, as expressions of PyTorch; all writers of PyTorch use them.
# `{a}` and `{b}` are operands, `{d}` is the destination's old content, `{bits}` the width of an element. The
# expressions call functions of torch/helpers.

COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@dataclass(frozen=True)
class Meaning:
    """A function of elements at one position.

    `floats`, `integers`: the expressions. Integers have the same expression as floats unless they have their own; `-`
    means undefined. `number`, `integers_number`: variants for a number as the second operand. `halves`: a variant for
    16-bit floats. `converts`: the elements (`f`loats, `i`ntegers) for which the expression has another type than the
    operands. `callable`: the function by itself. `precise`: the C++ instruction has a variant of high precision.
    """

    name: str
    floats: str
    integers: str = ""
    number: str = ""
    integers_number: str = ""
    halves: str = ""
    converts: str = ""
    callable: str = ""
    precise: bool = False

    def expression(self, *, is_float: bool, number: bool = False) -> str:
        """Return the expression for an element type; empty without one."""
        floats = (number and self.number) or self.floats
        integers = self.integers or self.floats
        if number:
            integers = self.integers_number or (self.number if not self.integers else "") or integers
        text = floats if is_float else integers
        return "" if text == "-" else text

    def keeps(self, *, is_float: bool) -> bool:
        """Return whether the expression's result has the element type of the operands."""
        return ("f" if is_float else "i") not in self.converts


@dataclass(frozen=True)
class Reduction:
    """A function along rows or columns; `maybe_empty` is for a region that may have no elements."""

    name: str
    torch: str
    maybe_empty: str = ""

    def keeps(self, *, is_float: bool) -> bool:
        """Return whether the result has the element type of the operand."""
        return is_float or self.name in ("max", "min")


# those that several operations compute
ADD = Meaning("add", "{a} + {b}", callable="torch.add")
SUB = Meaning("sub", "{a} - {b}")
MUL = Meaning("mul", "{a} * {b}", callable="torch.mul")
DIV = Meaning(
    "div", "{a} / {b}", "divide({a}, {b})", integers_number="divide({a}, torch.tensor({b}))", converts="i", precise=True
)
MAX = Meaning("max", "torch.maximum({a}, {b})", number="{a}.clamp(min={b})", callable="torch.maximum")
MIN = Meaning("min", "torch.minimum({a}, {b})", number="{a}.clamp(max={b})", callable="torch.minimum")
FMOD = Meaning(
    "fmod", "torch.fmod({a}, {b})", "fmod({a}, {b})", integers_number="fmod({a}, torch.tensor({b}))", converts="i",
    precise=True,
)  # fmt: skip
REM = Meaning("rem", "remainder({a}, {b})", number="remainder({a}, torch.tensor({b}))", converts="fi", precise=True)
POW = Meaning("pow", "power({a}, {b})", number="power({a}, torch.tensor({b}))", converts="fi", precise=True)
AND = Meaning("and", "-", "{a} & {b}")
OR = Meaning("or", "-", "{a} | {b}")
XOR = Meaning("xor", "-", "{a} ^ {b}")
SHL = Meaning(
    "shl", "-", "shift_left({a}, {b}, {bits})", integers_number="shift_left({a}, torch.tensor({b}), {bits})",
    converts="fi",
)  # fmt: skip
SHR = Meaning(
    "shr", "-", "shift_right({a}, {b}, {bits})", integers_number="shift_right({a}, torch.tensor({b}), {bits})",
    converts="fi",
)  # fmt: skip
PRELU = Meaning("prelu", "torch.where({a} > 0, {a}, {a} * {b})")
EXPDIF = Meaning("expdif", "torch.exp({a} - {b})", "-")
ADD_ADD = Meaning("add,add", "{a} + {b} + {c}", converts="fi")
SUB_ADD = Meaning("sub,add", "{a} - {b} + {c}", converts="fi")

SUM = Reduction("sum", "{a}.sum(dim={dim}, keepdim=True)", "total({a}, {dim})")
PROD = Reduction("prod", "{a}.prod(dim={dim}, keepdim=True)", "product({a}, {dim})")
MAX_OF = Reduction("max", "{a}.amax(dim={dim}, keepdim=True)", "highest({a}, {dim})")
MIN_OF = Reduction("min", "{a}.amin(dim={dim}, keepdim=True)", "lowest({a}, {dim})")


def mask_pattern(case: str) -> tuple[int, int]:
    """Return period and position of the element that a mask pattern (`P0101`) selects; its last digit is element 0."""
    digits = case[1:][::-1]
    if digits == "1111":
        return 1, 0
    return (2, digits.index("1")) if digits.count("1") == 2 else (4, digits.index("1"))


KINDS = (
    "tile",  # tile_buf, or memref in an on-chip space
    "tiles",  # multi_tile_buf
    "ptr",
    "view",  # tensor_view, or memref
    "part",  # partition_tensor_view, tile_view, or memref in gm
    "shaped",  # tile or part
    "entry",  # tile or tensor_view: what travels through a pipe
    "scalar",  # integer, index or float
    "index",  # index or integer
    "int",
    "float",
    "bool",  # i1
    "array",  # local array or event id array
    "any",
)


@dataclass(frozen=True)
class Role:
    name: str
    kind: str
    spaces: tuple[str, ...] = ()
    access: str = "r"
    optional: bool = False
    many: bool = False
    layout: str = ""
    layout_on: str = ""  # the platform whose instruction wants the layout; empty: every one


@dataclass(frozen=True)
class AttrDef:
    """`kind`: int, bool, float, str, symbol, type, any, or `enum` with its cases."""

    name: str
    kind: str
    required: bool = False
    cases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Variant:
    """One way to write an operation; `format` is empty for `ins(…) outs(…)`."""

    ins: tuple[Role, ...] = ()
    outs: tuple[Role, ...] = ()
    format: str = ""

    def roles(self) -> tuple[Role, ...]:
        return self.ins + self.outs


@dataclass(frozen=True)
class Rule:
    """A check by its name in checks/, with its arguments; `arch` is the platform that makes it, empty for all."""

    name: str
    args: tuple[str, ...] = ()
    arch: str = ""


@dataclass(frozen=True)
class OpDef:
    """An operation.

    `family` and `fn` name its function (`elementwise` `add`, `rowreduce` `max`, …) for the translations. `computes` is
    the function of elements in PyTorch, if it is one; `cpp` is the C++ instruction it becomes. `elements`: platform ->
    the allowed element types of tiles in `vec`; a missing platform takes any. `rules`: the checks of its operands
    against each other; `scratch`: the checks of `tmp`; `only`: its one platform. `refused`: why no simulated platform
    can run it. `result`: the type of an unwritten result: a type, or `$role` for the type of an operand.
    """

    name: str
    variants: tuple[Variant, ...]
    attrs: dict[str, AttrDef] = field(default_factory=dict)
    inner: tuple[str, ...] = ()  # attributes written inside `ins(…)`
    inner_comma: bool = False  # … after a comma
    trailing: str = ""  # a string attribute written behind the types of `ins(…)`
    results: int = 0  # -1: any number
    result: str = ""
    family: str = ""
    fn: str = ""
    computes: Meaning | Reduction | None = None
    cpp: str = ""
    core: str = ""  # `cube` or `vector`: the core that has it; empty for both
    only: str = ""
    direction: str = ""  # of traffic through a pipe: `to_aiv` or `to_aic`
    elements: dict[str, frozenset[str]] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    scratch: tuple[Rule, ...] = ()
    refused: str = ""

    @property
    def keys(self) -> tuple[str, str]:
        """Return the operation's keys in tables of translations, the more specific first: `family:fn`, family."""
        return f"{self.family}:{self.fn}", self.family

    @cached_property
    def laid_out(self) -> frozenset[str]:
        """Return the roles whose tiles must have a certain layout."""
        return frozenset(role.name for role in self.roles() if role.layout)

    @property
    def meaning(self) -> Meaning:
        """Return the function of elements. Raises AssertionError for operations without one."""
        assert isinstance(self.computes, Meaning), f"{self.name} is no function of elements"
        return self.computes

    def roles(self) -> Iterator[Role]:
        """Yield every role of every variant, once."""
        seen = set()
        for variant in self.variants:
            for role in variant.roles():
                if role.name not in seen:
                    seen.add(role.name)
                    yield role

    def role(self, name: str, variant: int = 0) -> Role | None:
        """Return the role called `name` in variant number `variant`, else in any variant."""
        key = (name, variant)
        if key not in self._roles_by_name:
            self._roles_by_name[key] = self._find(name, variant)
        return self._roles_by_name[key]

    @cached_property
    def _roles_by_name(self) -> dict[tuple[str, int], Role | None]:
        return {}

    def _find(self, name: str, variant: int) -> Role | None:
        first = (self.variants[variant],) if 0 <= variant < len(self.variants) else ()
        return next((role for v in (*first, *self.variants) for role in v.roles() if role.name == name), None)

    def reads(self) -> tuple[str, ...]:
        return tuple(role.name for role in self.roles() if "r" in role.access)

    def writes(self) -> tuple[str, ...]:
        return tuple(role.name for role in self.roles() if role.access in ("w", "rw", "s"))


_ROLE = re.compile(r"(\w+)([?*]?):(\w+)(?:@([\w|]+))?(?:~(rows|plain)(?:\.(\w+))?)?(?:=(r|w|rw|s))?\Z")
_RULE = re.compile(r"(?:(\w+):)?(\w+)(?:\(([\w,]*)\))?\Z")
_ATTR = re.compile(r"([\w.]+)(!?)=(\w+)(?:\(([^)]*)\))?\Z")


def parse_roles(text: str, access: str) -> tuple[Role, ...]:
    """Parse `src:tile@vec tmp?:tile@vec=s` into roles."""
    roles = []
    for word in text.split():
        match = _ROLE.match(word)
        if match is None or match[3] not in KINDS:
            raise ValueError(f"role '{word}' is not name[?|*]:kind[@spaces][~layout][=access]")
        spaces = tuple(match[4].split("|")) if match[4] else ()
        optional, many = match[2] == "?", match[2] == "*"
        roles.append(
            Role(match[1], match[3], spaces, match[7] or access, optional, many, match[5] or "", match[6] or "")
        )
    return tuple(roles)


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Parse `same a2a3:covers(dst,2)` into rules."""
    rules = []
    for word in text.split():
        match = _RULE.match(word)
        if match is None:
            raise ValueError(f"rule '{word}' is not [platform:]name[(argument,…)]")
        rules.append(Rule(match[2], tuple(filter(None, (match[3] or "").split(","))), match[1] or ""))
    return tuple(rules)


def parse_elements(text: str) -> dict[str, frozenset[str]]:
    """Return the types of `i16 f16 | f16 f32` (a2a3, then a5; or one list for both). An empty list admits all."""
    lists = text.split("|") * (2 if "|" not in text else 1)
    return {arch: frozenset(x.split()) for arch, x in zip(("a2a3", "a5"), lists, strict=True) if x.split()}


def parse_attrs(text: str) -> dict[str, AttrDef]:
    """Parse `split!=int rmode=enum(NONE|RINT)` into definitions; `!` marks a required attribute."""
    attrs = {}
    for word in text.split():
        match = _ATTR.match(word)
        if match is None:
            raise ValueError(f"attribute '{word}' is not name[!]=kind[(case|case)]")
        attrs[match[1]] = AttrDef(match[1], match[3], bool(match[2]), tuple(match[4].split("|")) if match[4] else ())
    return attrs


TABLE: dict[str, OpDef] = {}


def define(
    name: str,
    ins: str | tuple[str, ...] = "",
    outs: str | tuple[str, ...] = "",
    *,
    formats: str | tuple[str, ...] = "",
    attrs: str = "",
    inner: str = "",
    rules: str = "",
    scratch: str = "",
    elements: str = "",
    computes: Meaning | Reduction | None = None,
    fn: str = "",
    runs: Instruction | None = None,
    **fields: Any,
) -> None:
    """Add an operation to the table. Several `ins`, `outs` or `formats` are alternatives; a single one is used for
    all. `runs` is the C++ instruction of the operation.
    """
    lists = [(x,) if isinstance(x, str) else x for x in (ins, outs, formats)]
    count = max(map(len, lists))
    ins_, outs_, formats_ = (x * count if len(x) == 1 else x for x in lists)
    variants = tuple(
        Variant(parse_roles(i, "r"), parse_roles(o, "w"), f) for i, o, f in zip(ins_, outs_, formats_, strict=True)
    )
    row = OpDef(
        name, variants, parse_attrs(attrs), tuple(inner.split()), rules=parse_rules(rules),
        scratch=parse_rules(scratch), elements=parse_elements(elements), computes=computes,
        fn=fn or (computes.name if computes else ""), **fields,
    )  # fmt: skip
    if name in TABLE:
        raise ValueError(f"operation {name} is defined twice")
    TABLE[name] = row
    if runs is not None:
        _add_instruction(row, runs)


def _add_instruction(row: OpDef, runs: Instruction) -> None:
    """Add an instruction; its name, operands and read tiles default to the operation's."""
    forms, also_read = runs.forms, runs.also_read
    if not forms:
        orders = [[role for role in (*v.outs, *v.ins) if role.access != "s"] for v in row.variants]
        forms = tuple(dict.fromkeys(", ".join(role.name for role in roles) for roles in orders))
        also_read = tuple(role.name for role in row.roles() if role.access == "rw")
    instruction(runs, name=row.cpp, forms=forms, also_read=also_read)
