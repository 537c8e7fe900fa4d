"""Loops, branches and calls to C++. Carried values become variables that the loop or branch assigns."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Operation, Region, SymbolAttr
from ..resolve import Value
from .emitter import GUARDS, LOWERINGS, Carried, CppLines, Emitter, GlobalView, Scalar, TileVar, scalar


def _bounds(e: Emitter, op: Operation, values: Sequence[Value]) -> list[Carried]:
    carried = []
    for value in values:
        bound = e.bound.get(id(value))
        if not isinstance(bound, (TileVar, Scalar, GlobalView)):
            e.fail(op, f"{value.name} cannot be a variable of a loop or branch")
        carried.append(bound)
    return carried


def _declare(e: Emitter, name: str, bound: Carried, *, initial: bool) -> tuple[Carried, list[str]]:
    """Declare variables for the parts of a carried value, initialised or still empty."""
    names = []
    for ctype, text in bound.components():
        variable = e.names.new(name)
        e.out.add(f"{ctype} {variable} = {text};" if initial else f"{ctype} {variable};")
        names.append(variable)
    return bound.rebuilt(names), names


def _variables(
    e: Emitter, values: Sequence[Value], named: Sequence[Value], bounds: Sequence[Carried], *, initial: bool
) -> list[list[str]]:
    """Declare variables that hold values from now on; return the names of their parts."""
    targets = []
    for value, name, bound in zip(values, named, bounds, strict=True):
        e.bound[id(value)], names = _declare(e, name.name, bound, initial=initial)
        targets.append(names)
    return targets


def _assign(e: Emitter, targets: list[list[str]], values: list[Carried]) -> None:
    """Assign all values at once, because an assignment may read a value that another one changes."""
    pairs = [
        (name, ctype, text)
        for names, value in zip(targets, values, strict=True)
        for name, (ctype, text) in zip(names, value.components(), strict=True)
        if name != text
    ]
    if len(pairs) == 1:
        e.out.add(f"{pairs[0][0]} = {pairs[0][2]};")
        return
    held = []
    for name, ctype, text in pairs:
        temporary = e.names.new(f"next_{name}")
        e.out.add(f"const {ctype} {temporary} = {text};" if "*" not in ctype else f"{ctype} {temporary} = {text};")
        held.append((name, temporary))
    for name, temporary in held:
        e.out.add(f"{name} = {temporary};")


def _yielded(e: Emitter, region: Region) -> list[Carried]:
    """Return the values that the region's last operation passes on."""
    last = region.ops[-1] if region.ops else None
    if last is None or last.name not in ("scf.yield", "scf.condition"):
        return []
    return _bounds(e, last, e.resolved.values(last, "args"))


@LOWERINGS.of("control:for")
def loop(e: Emitter, op: Operation) -> None:
    region = op.regions[0]
    index, *carried = e.resolved.region_args[id(region)]
    initial, results = _bounds(e, op, e.resolved.values(op, "init")), e.resolved.results(op)
    targets = _variables(e, carried, results, initial, initial=True)
    ctype = scalar(index.type)
    name = e.names.new(index.name)
    e.bound[id(index)] = Scalar(name, ctype)
    lower, upper, step = (e.text(op, role) for role in ("lower", "upper", "step"))
    e.out.add(f"for ({ctype} {name} = {lower}; {name} < {upper}; {name} += {step}) {{")
    e.out.indent += 1
    e.region(region)
    _assign(e, targets, _yielded(e, region))
    e.out.indent -= 1
    e.out.add("}")
    for result, value in zip(results, carried, strict=True):
        e.bound[id(result)] = e.bound[id(value)]


@LOWERINGS.of("control:if")
def branch(e: Emitter, op: Operation) -> None:
    """Write a condition. Its branches are generated first, because their yields decide how the results are declared
    before them.
    """
    results = e.resolved.results(op)
    outer, bodies, yielded = e.out, [], []
    for region in op.regions:
        e.out = CppLines(indent=outer.indent + 1, token=outer.token)
        e.region(region)
        yielded.append(_yielded(e, region))
        bodies.append(e.out)
    e.out = outer
    targets = _variables(e, results, results, yielded[0][: len(results)], initial=False)
    for number, (body, values) in enumerate(zip(bodies, yielded, strict=True)):
        outer.add("} else {" if number else f"if ({e.text(op, 'cond')}) {{")
        outer.text += body.text
        outer.tokens += body.tokens
        outer.indent += 1
        if targets:
            _assign(e, targets, values)
        outer.indent -= 1
    outer.add("}")


@LOWERINGS.of("control:while")
def while_loop(e: Emitter, op: Operation) -> None:
    before, after = op.regions
    arguments, results = e.resolved.region_args[id(before)], e.resolved.results(op)
    initial = _bounds(e, op, e.resolved.values(op, "init"))
    targets = _variables(e, arguments, arguments, initial, initial=True)
    outer = e.out
    e.out = CppLines(indent=outer.indent + 1, token=outer.token)
    e.region(before)
    passed = _yielded(e, before)
    test, e.out = e.out, outer
    finals = _variables(e, results, results, passed, initial=False)
    outer.add("while (true) {")
    outer.text += test.text
    outer.tokens += test.tokens
    outer.indent += 1
    _assign(e, finals, passed)
    condition = before.ops[-1]
    outer.add(f"if (!{e.text(condition, 'cond')}) break;")
    for value, bound in zip(e.resolved.region_args[id(after)], passed, strict=True):
        e.bound[id(value)] = bound
    e.region(after)
    _assign(e, targets, _yielded(e, after))
    outer.indent -= 1
    outer.add("}")


@LOWERINGS.of("control:yield", "control:condition")
def passing(e: Emitter, op: Operation) -> None:
    """Write nothing: yield and condition are written by the enclosing loop or branch."""


@LOWERINGS.of("control:return")
def function_return(e: Emitter, op: Operation) -> None:
    """Write the return of the function's value; a kernel returns nothing, so nothing is written."""
    for value in e.resolved.values(op, "args"):
        e.out.add(f"return {e.expression(value, op)};")


@LOWERINGS.of("control:call")
def function_call(e: Emitter, op: Operation) -> None:
    callee = op.attrs["callee"]
    assert isinstance(callee, SymbolAttr)
    args = [e.expression(value, op) for value in e.resolved.values(op, "args")]
    call = f"{callee.name}({', '.join(args)})"
    if e.resolved.results(op):
        e.define(op, call)
    else:
        e.out.add(f"{call};")


@LOWERINGS.of("control:section")
def section(e: Emitter, op: Operation) -> None:
    """Write code for one of the two cores within a function for both."""
    guard = GUARDS[op.name.rpartition(".")[2]]
    e.out.add(f"#if defined({guard})")
    e.out.add("{")
    e.out.indent += 1
    if op.name.endswith("vector"):
        e.out.add("set_mask_norm();")
        e.out.add("set_vector_mask(-1, -1);")
    e.region(op.regions[0])
    e.out.indent -= 1
    e.out.add("}")
    e.out.add(f"#endif // {guard}")
