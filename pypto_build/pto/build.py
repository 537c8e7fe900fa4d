"""Making operations in Python, for programs that write .pto: the operation's definition decides how it is written.

operation("pto.tadd", src0=("%a", tile), src1=("%b", tile), dst=("%c", tile))
operation("pto.tfree_from_aic", attrs={"split": IntAttr(0)})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .model import Attribute, Location, Operation, Region
from .ops import TABLE, OpDef
from .ops.format import Directive, all_steps, compile_format
from .types import Type

Typed = tuple[str, Type]


def operation(
    name: str,
    /,
    *,
    results: Sequence[Typed] = (),
    attrs: Mapping[str, Attribute] | None = None,
    regions: Sequence[Region] = (),
    loc: Location | None = None,
    **operands: Typed | Sequence[Typed],
) -> Operation:
    """Return an operation from (value, type) pairs, one or a list for each role. Raises ValueError for a pair that
    does not fit.
    """
    definition = TABLE.get(name)
    if definition is None:
        raise ValueError(f"there is no operation {name}")
    values = {role: _pairs(value) for role, value in operands.items()}
    form = _form(definition, values)
    layout = definition.variants[form]
    typed = _typed(definition, form)
    op = Operation(name, attrs=dict(attrs or {}), regions=tuple(regions), loc=loc, variant=form)
    for role in layout.roles():
        pairs = values.get(role.name, ())
        if pairs or (role.many and role.name in values):
            op.operands[role.name] = tuple(value for value, _ in pairs)
            if not layout.format or role.name in typed:
                op.types[role.name] = tuple(type_ for _, type_ in pairs)
    if definition.results >= 0 and len(results) != definition.results:
        raise ValueError(f"{name} has {definition.results} results, but {len(results)} are given")
    op.results = tuple(value for value, _ in results)
    if not definition.result:
        op.result_types = tuple(type_ for _, type_ in results)
    return op


def _pairs(value: Typed | Sequence[Typed]) -> tuple[Typed, ...]:
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        return ((value[0], value[1]),)
    return tuple(value)


def _form(definition: OpDef, values: Mapping[str, Sequence[Typed]]) -> int:
    """Return the index of the first form that has all these roles and requires no other."""
    for number, form in enumerate(definition.variants):
        roles = {role.name: role for role in form.roles()}
        needed = {name for name, role in roles.items() if not (role.optional or role.many)}
        if needed <= values.keys() <= roles.keys():
            return number
    choices = " or ".join(
        "(" + ", ".join(f"[{r.name}]" if r.optional or r.many else r.name for r in form.roles()) + ")"
        for form in definition.variants
    )
    raise ValueError(f"{definition.name} takes {choices}, found ({', '.join(values)})")


def _typed(definition: OpDef, form: int) -> set[str]:
    """Return the roles whose types a format writes."""
    text = definition.variants[form].format
    if definition.name == "scf.while":
        return {"init"}
    return {name for step in all_steps(compile_format(text)) for name in _names(step)}


def _names(step: Directive) -> list[str]:
    if step.code == "T$":
        return step.name.split(",")
    if step.code == "V":
        return [step.name]
    if step.code == "F":
        return ["args"]
    return step.groups_names() if step.code in ("P", "K") else []
