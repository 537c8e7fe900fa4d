"""Checks attributes, terminators, calls, and the core that can run an operation."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import (
    Attribute,
    BoolAttr,
    EnumAttr,
    FloatAttr,
    Function,
    IntAttr,
    Module,
    Operation,
    Region,
    StrAttr,
    SymbolAttr,
    TypeAttr,
)
from ..ops import TABLE, AttrDef
from ..resolve import Problem, Resolved

_KINDS: dict[str, tuple[type[Attribute], ...]] = {
    "int": (IntAttr,),
    "bool": (BoolAttr, IntAttr),
    "float": (FloatAttr, IntAttr),
    "str": (StrAttr,),
    "symbol": (SymbolAttr,),
    "type": (TypeAttr,),
}


def check_structure(resolved: Resolved, op: Operation, module: Module) -> Iterator[Problem]:
    function = resolved.function
    for message in _attributes(op):
        yield Problem(op, message, function)
    core = TABLE[op.name].core
    if core and function.kernel_kind and core != function.kernel_kind:
        yield Problem(
            op, f"is an operation of the {core} core, but the function is a {function.kernel_kind} kernel", function
        )
    if TABLE[op.name].fn == "call":
        callee = next((f for f in module.functions() if f.name == getattr(op.attrs["callee"], "name", "")), None)
        if callee is None:
            yield Problem(op, f"there is no function {op.attrs['callee']} in the module", function)
        else:
            yield from (Problem(op, message, function) for message in _call(resolved, op, callee))
            if function in _reached(callee, module):
                yield Problem(op, f"@{function.name} calls itself, which no kernel can", function)
    if TABLE[op.name].fn == "return" and function.results and _is_entry(function, module):
        yield Problem(op, f"@{function.name} is an entry, and returns no value", function)
    for region, terminator in _yielding(op):
        yield from _terminator(resolved, op, region, terminator)


def _is_entry(function: Function, module: Module) -> bool:
    """Return True for a function that is marked, or for the only one of its module."""
    others = [one for one in module.functions() if one.body is not None and one is not function]
    return "pto.entry" in function.attrs or not (others or function.visibility)


def _reached(function: Function, module: Module) -> list[Function]:
    """Return ``function`` and all functions that it calls, directly or indirectly."""
    by_name, reached = {one.name: one for one in module.functions()}, [function]
    for one in reached:  # which grows meanwhile
        callees = (getattr(op.attrs.get("callee"), "name", "") for op in one.walk() if TABLE[op.name].fn == "call")
        reached += [
            by_name[name] for name in dict.fromkeys(callees) if name in by_name and by_name[name] not in reached
        ]
    return reached


def check_ending(resolved: Resolved) -> Iterator[Problem]:
    """Check that a function ends with return, and returns the declared types."""
    function = resolved.function
    assert function.body is not None
    last = function.body.ops[-1] if function.body.ops else None
    if last is None or last.name not in ("return", "func.return"):
        yield Problem(last, "the function does not end with return", function)
    elif len(last.operands.get("args", ())) != len(function.results):
        count = len(last.operands.get("args", ()))
        yield Problem(last, f"the function returns {len(function.results)} values, found {count}", function)


def _attributes(op: Operation) -> Iterator[str]:
    definition = TABLE[op.name]
    for name, attr in definition.attrs.items():
        if attr.required and name not in op.attrs:
            yield f"attribute '{name}' is missing"
    for name, value in op.attrs.items():
        declared = definition.attrs.get(name)
        if declared is None:
            if "." not in name and name != "operandSegmentSizes":
                allowed = ", ".join(definition.attrs) or "none"
                yield f"unknown attribute '{name}' (allowed: {allowed})"
        elif declared.kind == "enum":
            yield from _case(declared, value)
        elif declared.kind in _KINDS and not isinstance(value, _KINDS[declared.kind]):
            yield f"attribute '{name}' is a {declared.kind}, found {value}"


def _case(attribute: AttrDef, value: Attribute) -> Iterator[str]:
    # a few attributes may be written as the number of their case
    if isinstance(value, IntAttr) or (isinstance(value, EnumAttr) and value.case in attribute.cases):
        return
    yield f"attribute '{attribute.name}' is one of {', '.join(attribute.cases)}, found {value}"


def _call(resolved: Resolved, op: Operation, callee: Function) -> Iterator[str]:
    values = resolved.values(op, "args")
    if len(values) != len(callee.args):
        yield f"@{callee.name} takes {len(callee.args)} arguments, found {len(values)}"
        return
    for value, arg in zip(values, callee.args, strict=True):
        if value.type is not None and value.type != arg.type:
            yield f"argument {arg.name} of @{callee.name} has type {arg.type}, found {value.name} of type {value.type}"
    if len(op.results) != len(callee.results):
        yield f"@{callee.name} has {len(callee.results)} results, found {len(op.results)}"


def _yielding(op: Operation) -> Iterator[tuple[Region, str]]:
    """Yield the regions that must end with an operation that yields values."""
    if op.name == "scf.while":
        yield op.regions[0], "scf.condition"
        yield op.regions[1], "scf.yield"
    elif op.name in ("scf.for", "scf.if") and op.result_types:
        for region in op.regions:
            yield region, "scf.yield"


def _terminator(resolved: Resolved, op: Operation, region: Region, terminator: str) -> Iterator[Problem]:
    function = resolved.function
    last = region.ops[-1] if region.ops else None
    if last is None or last.name != terminator:
        yield Problem(last or op, f"the body does not end with {terminator}", function)
        return
    types = op.result_types
    if op.name == "scf.while" and terminator == "scf.yield":
        types = op.types.get("init", ())
    values = resolved.values(last, "args")
    if len(values) != len(types):
        yield Problem(last, f"expected {len(types)} values for {op.name}, found {len(values)}", function)
        return
    for value, type_ in zip(values, types, strict=True):
        if value.type is not None and value.type != type_:
            yield Problem(last, f"{value.name} has type {value.type}, but {op.name} expects {type_}", function)
