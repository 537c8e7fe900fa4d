"""Translates loops, branches and calls to Python. Carried values of a loop become variables that are assigned at
once.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Operation, Region, SymbolAttr
from ..resolve import Value
from .writer import LOWERINGS, Writer


def _yielded(w: Writer, region: Region) -> list[str]:
    last = region.ops[-1] if region.ops else None
    if last is None or last.name not in ("scf.yield", "scf.condition"):
        return []
    return [w.text(value) for value in w.resolved.values(last, "args")]


def _assign(w: Writer, names: Sequence[str], values: Sequence[str]) -> None:
    """Assign all variables at once: `a, b = b, a` swaps them."""
    pairs = [(name, value) for name, value in zip(names, values, strict=True) if name != value]
    if pairs:
        w.out.add(f"{', '.join(name for name, _ in pairs)} = {', '.join(value for _, value in pairs)}")


def _carry(w: Writer, targets: Sequence[Value], initial: Sequence[str]) -> list[str]:
    names = [w.bind(target, w.names.unique(target.name)) for target in targets]
    _assign(w, names, initial)
    return names


@LOWERINGS.of("control:for")
def loop(w: Writer, op: Operation) -> None:
    region = op.regions[0]
    index, *carried = w.resolved.region_args[id(region)]
    names = _carry(w, carried, w.operands(op, "init"))
    lower, upper, step = (w.operand(op, role) for role in ("lower", "upper", "step"))
    span = f"{lower}, {upper}, {step}" if step != "1" else f"{lower}, {upper}" if lower != "0" else upper
    name = w.bind(index, w.names.unique(index.name))
    w.add(op, f"for {name} in range({span}):")
    _body(w, region, names)
    for result, carrier in zip(w.resolved.results(op), names, strict=True):
        w.bind(result, carrier)


def _body(w: Writer, region: Region, names: Sequence[str]) -> None:
    w.out.indent += 1
    before = len(w.out.text)
    w.region(region)
    _assign(w, names, _yielded(w, region))
    if len(w.out.text) == before:
        w.out.add("pass")
    w.out.indent -= 1


@LOWERINGS.of("control:if")
def branch(w: Writer, op: Operation) -> None:
    names = [w.bind(result, w.names.unique(result.name)) for result in w.resolved.results(op)]
    w.add(op, f"if {w.operand(op, 'cond')}:")
    for number, region in enumerate(op.regions):
        if number and not region.ops:
            continue
        if number:
            w.out.add("else:")
        _body(w, region, names if _yielded_count(region) else [])


def _yielded_count(region: Region) -> int:
    last = region.ops[-1] if region.ops else None
    return len(last.operands.get("args", ())) if last is not None and last.name == "scf.yield" else 0


@LOWERINGS.of("control:while")
def while_loop(w: Writer, op: Operation) -> None:
    before, after = op.regions
    names = _carry(w, w.resolved.region_args[id(before)], w.operands(op, "init"))
    w.add(op, "while True:")
    w.out.indent += 1
    w.region(before)
    passed = _yielded(w, before)
    results = [w.bind(result, w.names.unique(result.name)) for result in w.resolved.results(op)]
    _assign(w, results, passed)
    w.out.add(f"if not {w.operand(before.ops[-1], 'cond')}:")
    w.out.add("    break")
    for value, result in zip(w.resolved.region_args[id(after)], results, strict=True):
        w.bind(value, result)
    w.region(after)
    _assign(w, names, _yielded(w, after))
    w.out.indent -= 1


@LOWERINGS.of("control:yield", "control:condition")
def passing(w: Writer, op: Operation) -> None:
    """Write nothing: yield and condition are written by the enclosing loop or branch."""


@LOWERINGS.of("control:return")
def function_return(w: Writer, op: Operation) -> None:
    values = w.operands(op, "args")
    if values:
        w.add(op, f"return {', '.join(values)}")


@LOWERINGS.of("control:call")
def function_call(w: Writer, op: Operation) -> None:
    callee = op.attrs["callee"]
    assert isinstance(callee, SymbolAttr)
    call = f"{w.scope.names[callee.name]}({', '.join(w.operands(op, 'args'))})"
    if callee.name in w.scope.scheduled:
        call = f"(yield from {call})"
    names = [w.name_result(op, number) for number in range(len(w.resolved.results(op)))]
    w.add(op, f"{', '.join(names)} = {call}" if names else call)


@LOWERINGS.of("control:section")
def section(w: Writer, op: Operation) -> None:
    """Write code for one of the two cores within a function for both."""
    kind = "cube" if op.name.endswith("cube") else "vector"
    if w.function.kernel_kind in ("", kind):
        w.region(op.regions[0])
