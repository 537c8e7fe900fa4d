"""How an operation is defined: one row of data from which parsing, printing, checking and translation follow.

Operands have roles. A role is written `name[?|*]:kind[@space|space…][=access]`: `?` may be absent, `*` any number;
kind is one of KINDS; `@` limits the memory spaces of a tile; access is `r` (read), `w` (written), `rw` or `s`
(scratch: overwritten, content meaningless afterwards). Roles of `ins` default to r, of `outs` to w.

An operation is written in one of its forms. The usual form is `ins(%a, %b {inner attributes} : T, T) outs(%d : T) {…}`;
any other has a format, a blank-separated list of
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
from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class AttrDef:
    """`kind`: int, bool, float, str, symbol, type, any, or `enum` with its cases."""

    name: str
    kind: str
    required: bool = False
    cases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Form:
    """One way to write an operation; `format` is empty for `ins(…) outs(…)`."""

    ins: tuple[Role, ...] = ()
    outs: tuple[Role, ...] = ()
    format: str = ""

    def roles(self) -> tuple[Role, ...]:
        return self.ins + self.outs


@dataclass(frozen=True)
class OpDef:
    """An operation.

    `family` and `fn` say what it computes (`elementwise` `add`, `rowreduce` `max`, …) for the translations; `cpp` is
    the C++ instruction it becomes; `rule` the relation between the shapes and element types of its operands; `result`
    the type of its result when it is not written: a type, or `$role` for the type of an operand.
    """

    name: str
    forms: tuple[Form, ...]
    attrs: dict[str, AttrDef] = field(default_factory=dict)
    inner: tuple[str, ...] = ()  # attributes written inside `ins(…)`
    inner_comma: bool = False  # … after a comma
    trailing: str = ""  # a string attribute written behind the types of `ins(…)`
    results: int = 0  # -1: any number
    result: str = ""
    rule: str = ""
    family: str = ""
    fn: str = ""
    cpp: str = ""
    core: str = ""  # `cube` or `vector`: the core that has it; empty for both

    @property
    def keys(self) -> tuple[str, str, str]:
        """What tables of translations know it by, the most specific first: name, `family:fn`, family."""
        return self.name, f"{self.family}:{self.fn}", self.family

    def roles(self) -> Iterator[Role]:
        """Every role of every form, once."""
        seen = set()
        for form in self.forms:
            for role in form.roles():
                if role.name not in seen:
                    seen.add(role.name)
                    yield role

    def role(self, name: str, form: int = 0) -> Role | None:
        """The role called `name` in form number `form`, else in any form."""
        forms = (self.forms[form], *self.forms) if 0 <= form < len(self.forms) else self.forms
        return next((role for f in forms for role in f.roles() if role.name == name), None)

    def reads(self) -> tuple[str, ...]:
        return tuple(role.name for role in self.roles() if "r" in role.access)

    def writes(self) -> tuple[str, ...]:
        return tuple(role.name for role in self.roles() if role.access in ("w", "rw", "s"))


_ROLE = re.compile(r"(\w+)([?*]?):(\w+)(?:@([\w|]+))?(?:=(r|w|rw|s))?\Z")
_ATTR = re.compile(r"([\w.]+)(!?)=(\w+)(?:\(([^)]*)\))?\Z")


def parse_roles(text: str, access: str) -> tuple[Role, ...]:
    """`src:tile@vec tmp?:tile@vec=s` -> roles."""
    roles = []
    for word in text.split():
        found = _ROLE.match(word)
        if found is None or found[3] not in KINDS:
            raise ValueError(f"role '{word}' is not name[?|*]:kind[@spaces][=access]")
        spaces = tuple(found[4].split("|")) if found[4] else ()
        roles.append(Role(found[1], found[3], spaces, found[5] or access, found[2] == "?", found[2] == "*"))
    return tuple(roles)


def parse_attrs(text: str) -> dict[str, AttrDef]:
    """`split!=int rmode=enum(NONE|RINT)` -> definitions; `!` marks a required one."""
    attrs = {}
    for word in text.split():
        found = _ATTR.match(word)
        if found is None:
            raise ValueError(f"attribute '{word}' is not name[!]=kind[(case|case)]")
        attrs[found[1]] = AttrDef(found[1], found[3], bool(found[2]), tuple(found[4].split("|")) if found[4] else ())
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
    inner_comma: bool = False,
    trailing: str = "",
    results: int = 0,
    result: str = "",
    rule: str = "",
    family: str = "",
    fn: str = "",
    cpp: str = "",
    core: str = "",
) -> OpDef:
    """Add an operation to the table. Several `ins`, `outs` or `formats` are alternatives; a single one of them serves
    all."""
    lists = [(x,) if isinstance(x, str) else x for x in (ins, outs, formats)]
    count = max(map(len, lists))
    ins_, outs_, formats_ = (x * count if len(x) == 1 else x for x in lists)
    forms = tuple(
        Form(parse_roles(i, "r"), parse_roles(o, "w"), f) for i, o, f in zip(ins_, outs_, formats_, strict=True)
    )
    made = OpDef(
        name,
        forms,
        attrs=parse_attrs(attrs),
        inner=tuple(inner.split()),
        inner_comma=inner_comma,
        trailing=trailing,
        results=results,
        result=result,
        rule=rule,
        family=family,
        fn=fn,
        cpp=cpp,
        core=core,
    )
    if name in TABLE:
        raise ValueError(f"operation {name} is defined twice")
    TABLE[name] = made
    return made
