"""Prints a model in PyPTO's spelling: a module that PyPTO wrote is printed byte for byte.

Comments and unusual spacing are not kept; types, numbers and enum attributes keep their original spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .model import GENERIC_PLAIN, Function, Module, Operation, Region, print_dict
from .ops import TABLE, OpDef
from .ops.format import Directive, all_steps, compile_format
from .types import Type

_TIGHT_BEFORE = frozenset({",", ")", "]"})
_TIGHT_AFTER = frozenset({"(", "["})


def print_module(module: Module) -> str:
    """Return the text of a module, with a newline at the end."""
    lines: list[str] = []
    _module(module, "", lines)
    lines += [f"{name} = {text}" for name, text in module.aliases.items()]
    return "\n".join(lines) + "\n"


def print_operation(op: Operation, indent: str = "") -> str:
    """Return the text of one operation and its regions, without a newline at the end."""
    lines: list[str] = []
    _operation(op, indent, lines)
    return "\n".join(lines)


def _module(module: Module, indent: str, lines: list[str]) -> None:
    inner = indent
    if module.explicit:
        name = f" @{module.name}" if module.name else ""
        attributes = f" attributes {print_dict(module.attrs)}" if module.attrs else ""
        lines.append(f"{indent}module{name}{attributes} {{")
        inner = indent + "  "
    for item in module.items:
        if isinstance(item, Function):
            _function(item, inner, lines)
        elif isinstance(item, Module):
            _module(item, inner, lines)
        else:
            _operation(item, inner, lines)
    if module.explicit:
        lines.append(f"{indent}}}" + (f" {module.loc}" if module.loc else ""))


def _function(function: Function, indent: str, lines: list[str]) -> None:
    """Print a function. PyPTO indents a function's body no deeper than its header."""
    args = ", ".join(
        (f"{a.name}: {a.type}" if a.name else str(a.type)) + (f" {print_dict(a.attrs)}" if a.attrs else "")
        for a in function.args
    )
    visibility = f"{function.visibility} " if function.visibility else ""
    results = f" -> {_result_types(function.results)}" if function.results else ""
    attributes = f" attributes {print_dict(function.attrs)}" if function.attrs else ""
    location = f" {function.loc}" if function.loc else ""
    header = f"{indent}func.func {visibility}@{function.name}({args}){results}{attributes}"
    if function.body is None:
        lines.append(header + location)
        return
    lines.append(header + " {")
    for op in function.body.ops:
        _operation(op, indent, lines)
    lines.append(f"{indent}}}{location}")


def _result_types(types: tuple[Type, ...]) -> str:
    return str(types[0]) if len(types) == 1 else f"({_commas(types)})"


def _commas(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))


def _operation(op: Operation, indent: str, lines: list[str]) -> None:
    text = indent + (f"{_names(op.results)} = " if op.results else "")
    tail = f" {op.loc}" if op.loc else ""
    special = _SPECIAL.get(op.name)
    if special is not None and op.variant >= 0:
        special(op, text, indent, lines)
        lines[-1] += tail
        return
    if op.variant < 0:
        text += _generic(op)
    elif not TABLE[op.name].variants[op.variant].format:
        text += op.name + _ins_outs(TABLE[op.name], op)
    else:
        text += op.name + _formatted(compile_format(TABLE[op.name].variants[op.variant].format), op, indent, op.name)
    if op.regions:  # a section
        lines.append(text + " {")
        _body(op.regions[0], indent, lines)
        text = indent + "}"
    lines.append(text + tail)


def _names(names: tuple[str, ...]) -> str:
    """Return `%a, %b`; a pack `%p#0, %p#1` as `%p:2`."""
    if len(names) > 0 and names[0].endswith("#0"):
        base = names[0][:-2]
        if names == tuple(f"{base}#{i}" for i in range(len(names))):
            return f"{base}:{len(names)}"
    return _commas(names)


def _body(region: Region, indent: str, lines: list[str]) -> None:
    for op in region.ops:
        _operation(op, indent + "  ", lines)


def _ins_outs(definition: OpDef, op: Operation) -> str:
    form = definition.variants[op.variant]
    inner = {k: v for k, v in op.attrs.items() if k in definition.inner}
    outer = {k: v for k, v in op.attrs.items() if k not in definition.inner and k != definition.trailing}
    trailing = f", {op.attrs[definition.trailing]}" if definition.trailing and definition.trailing in op.attrs else ""
    text = ""
    for word, roles in (("ins", form.ins), ("outs", form.outs)):
        values = [v for role in roles for v in op.operands.get(role.name, ())]
        types = [t for role in roles for t in op.types.get(role.name, ())]
        attributes = ""
        if word == "ins" and inner:
            attributes = (", " if definition.inner_comma and values else " " if values else "") + print_dict(inner)
        if values or attributes:
            text += f" {word}({_commas(values)}{attributes}{' : ' + _commas(types) if types else ''}{trailing})"
            trailing = ""
    return text + (f" {print_dict(outer)}" if outer else "")


def _generic(op: Operation) -> str:
    values = [v for _, v in op.all_operands()]
    types = [t for role in op.operands for t in op.types.get(role, ())]
    properties = f" <{print_dict(op.attrs)}>" if op.attrs else ""
    if op.variant == GENERIC_PLAIN:
        properties = f" {print_dict(op.attrs)}" if op.attrs else ""
    return f'"{op.name}"({_commas(values)}){properties} : ({_commas(types)}) -> {_result_types(op.result_types)}'


# --- formats ---------------------------------------------------------------------------------------------------------


def _formatted(steps: tuple[Directive, ...], op: Operation, indent: str, before: str) -> str:
    """Return the text of a format's steps; the preceding text `before` decides about blanks."""
    text = ""
    for step in steps:
        piece = _step(step, op, indent, before + text)
        if not piece:
            continue
        glued = step.glued or piece[0] in _TIGHT_BEFORE or (before + text)[-1:] in _TIGHT_AFTER or step.code == "opt"
        text += piece if glued or piece[0] == "\n" else " " + piece
    return text


def _step(step: Directive, op: Operation, indent: str, before: str) -> str:
    code, name = step.code, step.name
    if code == "lit":
        return name
    if code == "$":
        return _commas(op.operands.get(name, ()))
    if code == "opt":
        return _formatted(step.body, op, indent, before) if _present(step.body, op) else ""
    if code == "T$":
        return ", ".join(_commas(op.types.get(n, ())) for n in name.split(","))
    if code == "T=":
        return _commas(op.result_types)
    if code == "{}":
        written = {
            s.name
            for form in TABLE[op.name].variants
            for s in all_steps(compile_format(form.format))
            if s.code in "AWI"
        }
        rest = {k: v for k, v in op.attrs.items() if k not in written}
        return print_dict(rest) if rest else ""
    return _rare_step(step, op, indent)


def _rare_step(step: Directive, op: Operation, indent: str) -> str:
    code, name = step.code, step.name
    if code in "AI":
        return str(op.attrs[name])
    if code == "W":
        return str(getattr(op.attrs[name], "case", op.attrs[name]))
    if code == "C":
        value = op.attrs["value"]
        typed = getattr(value, "type", None) is not None or not op.result_types
        return str(value) if typed else f"{value} : {op.result_types[0]}"
    if code == "V":
        values, types = op.operands.get(name, ()), op.types.get(name, ())
        return _commas(values) + (f" : {_commas(types)}" if types else "")
    if code == "F":
        return f"({_commas(op.types.get('args', ()))}) -> {_result_types(op.result_types)}"
    return _group(step, op, indent) if code in "PNK" else ""


def _group(step: Directive, op: Operation, indent: str) -> str:
    if step.code == "K":
        keyed = [
            f"{n} = {op.operands[n][0]} : {_commas(op.types.get(n, ()))}"
            for n in step.groups_names()
            if n in op.operands
        ]
        return f"\n{indent}    ({', '.join(keyed)})" if keyed else ""
    parts: list[str] = []
    types: list[Type] = []
    for keyword, names in step.groups:
        values = op.operands.get(names[0], ())
        if values:
            parts.append(f"{keyword}({_commas(values)})" if keyword else _commas(values))
            types += op.types.get(names[0], ())
    return f"({', '.join(parts)}{' : ' + _commas(types) if types and step.code == 'P' else ''})"


def _present(steps: tuple[Directive, ...], op: Operation) -> bool:
    """Return whether an optional part has content."""
    for step in all_steps(steps):
        if step.code == "$" and step.name in op.operands:
            return True
        if step.code in ("A", "I") and step.name in op.attrs:
            return True
        if step.code == "T=" and op.result_types:
            return True
        if step.code == "F" and (op.result_types or op.types or not op.operands.get("args")):
            return True
        if step.code in "PNK" and any(n in op.operands for n in step.groups_names()):
            return True
    return False


# --- control flow ----------------------------------------------------------------------------------------------------


def _for(op: Operation, text: str, indent: str, lines: list[str]) -> None:
    body = op.regions[0]
    bounds = f"{op.operand('lower')} to {op.operand('upper')} step {op.operand('step')}"
    text += f"scf.for {body.args[0][0]} = {bounds}"
    inits = op.operands.get("init", ())
    if inits:
        carried = ", ".join(f"{name} = {init}" for (name, _), init in zip(body.args[1:], inits, strict=True))
        text += f" iter_args({carried}) -> ({_commas(op.result_types)})"
    if "lower" in op.types:
        text += f" : {op.types['lower'][0]}"
    lines.append(text + " {")
    _body(body, indent, lines)
    lines.append(indent + "}")


def _if(op: Operation, text: str, indent: str, lines: list[str]) -> None:
    results = f" -> ({_commas(op.result_types)})" if op.result_types else ""
    lines.append(f"{text}scf.if {op.operand('cond')}{results} {{")
    _body(op.regions[0], indent, lines)
    if len(op.regions) > 1:
        lines.append(indent + "} else {")
        _body(op.regions[1], indent, lines)
    lines.append(indent + "}")


def _while(op: Operation, text: str, indent: str, lines: list[str]) -> None:
    before, after = op.regions
    inits = op.operands.get("init", ())
    carried = ", ".join(f"{name} = {init}" for (name, _), init in zip(before.args, inits, strict=True))
    signature = f"({_commas(op.types.get('init', ()))}) -> {_result_types(op.result_types)}"
    lines.append(f"{text}scf.while ({carried}) : {signature} {{")
    _body(before, indent, lines)
    lines.append(indent + "} do {")
    if after.args:
        lines.append(f"{indent}^bb0({', '.join(f'{name}: {type_}' for name, type_ in after.args)}):")
    _body(after, indent, lines)
    lines.append(indent + "}")


_SPECIAL: dict[str, Callable[[Operation, str, str, list[str]], None]] = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
}
