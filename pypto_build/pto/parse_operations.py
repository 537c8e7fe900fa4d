"""Reads operations: `ins(…) outs(…)` directly, every other form by the directives of its format."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import NoReturn

from .errors import PtoError
from .model import GENERIC, GENERIC_PLAIN, ArrayAttr, Attribute, EnumAttr, IntAttr, Operation, RawAttr, Region, Source
from .ops import TABLE, OpDef
from .ops.format import Directive, compile_format
from .ops.roles import assign, choose_variant, describe_variants, generic_roles
from .parse_attributes import AttributeReader, number
from .types import Type, parse_type

# Reading regions, and `scf.for`, `scf.if` and `scf.while`, whose regions define values of their own.

MAX_DEPTH = 64  # nested regions


class RegionReader(AttributeReader):
    """Reads regions of operations; its subclass `OperationReader` reads the operations."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.depth = 0

    def region(self, args: tuple[tuple[str, Type | None], ...] = ()) -> Region:
        """`{ operations }`."""
        self.expect("{", "'{' before the body")
        return self.region_body(args)

    def region_body(self, args: tuple[tuple[str, Type | None], ...]) -> Region:
        """`operations }`."""
        if self.depth >= MAX_DEPTH:
            self.fail(f"expected at most {MAX_DEPTH} nested regions", self.at - 1)
        self.depth += 1
        region = Region([], args)
        tokens = self.tokens
        while tokens[self.at] != "}":
            region.ops.append(self.operation())
        self.at += 1
        self.depth -= 1
        return region

    def operation(self) -> Operation:
        """Read and return the next operation."""
        raise NotImplementedError


def read_for(reader: RegionReader, op: Operation) -> None:
    """`%i = %a to %b step %c [iter_args(%x = %init) -> (T)] [: type] { … }`."""
    index = reader.value("the loop index")
    reader.expect("=")
    op.operands["lower"] = (reader.value("the lower bound"),)
    reader.expect("to", "'to' and the upper bound")
    op.operands["upper"] = (reader.value("the upper bound"),)
    reader.expect("step", "'step' and the step")
    op.operands["step"] = (reader.value("the step"),)
    names: list[str] = []
    if reader.accept("iter_args"):
        names = _initial_values(reader, op)
        reader.expect("->", "'->' and the types of iter_args")
        op.result_types = _result_types(reader, len(names))
    index_type = parse_type("index")
    if reader.accept(":"):
        index_type = reader.type()
        op.types["lower"] = (index_type,)
    op.regions = (reader.region(((index, index_type), *zip(names, op.result_types, strict=True))),)


def _initial_values(reader: RegionReader, op: Operation) -> list[str]:
    """Read `(%x = %init, …)`; the initial values become operands, the names are returned."""
    reader.expect("(", "'('")
    names: list[str] = []
    values: list[str] = []
    while reader.tokens[reader.at] != ")":
        names.append(reader.value("the name of a carried value"))
        reader.expect("=", "'=' and its initial value")
        values.append(reader.value("its initial value"))
        if not reader.accept(","):
            break
    reader.expect(")", "',' or ')'")
    if values:
        op.operands["init"] = tuple(values)
    return names


def _result_types(reader: RegionReader, count: int) -> tuple[Type, ...]:
    types = reader.result_types()
    if len(types) != count:
        reader.fail(
            f"expected {count} type{'s' * (count != 1)}, one for each carried value, found {len(types)}",
            reader.at - 1,
        )
    return tuple(types)


def read_if(reader: RegionReader, op: Operation) -> None:
    """`%cond [-> (T)] { … } [else { … }]`."""
    op.operands["cond"] = (reader.value("the condition"),)
    if reader.accept("->"):
        op.result_types = tuple(reader.result_types())
    regions = [reader.region()]
    if reader.accept("else"):
        regions.append(reader.region())
    elif op.result_types:
        reader.fail(f"expected 'else', since the operation has results; found {reader.shown_token()}")
    op.regions = tuple(regions)


def read_while(reader: RegionReader, op: Operation) -> None:
    """`(%x = %init) : (T) -> (R) { … scf.condition } do { ^bb0(%y: R): … }`."""
    names = _initial_values(reader, op)
    reader.expect(":", "':' and the type")
    signature = reader.function_type()
    if len(signature.inputs) != len(names):
        reader.fail(f"expected {len(names)} operand types, found {len(signature.inputs)}", reader.at - 1)
    if names:
        op.types["init"] = signature.inputs
    op.result_types = signature.results
    before = reader.region(tuple(zip(names, signature.inputs, strict=True)))
    reader.expect("do", "'do' and the loop body")
    op.regions = (before, _labelled_region(reader))


def _labelled_region(reader: RegionReader) -> Region:
    """Read a region that may begin with `^name(%x: T, …):`, which names its arguments."""
    args: list[tuple[str, Type | None]] = []
    if reader.tokens[reader.at] == "{" and reader.tokens[reader.at + 1][:1] == "^":
        reader.at += 2
        if reader.accept("("):
            while reader.tokens[reader.at] != ")":
                name = reader.value("an argument of the block")
                reader.expect(":", "':' and its type")
                args.append((name, reader.type()))
                if not reader.accept(","):
                    break
            reader.expect(")", "',' or ')'")
        reader.expect(":", "':' after the block's arguments")
        return reader.region_body(tuple(args))
    return reader.region()


READERS: dict[str, Callable[[RegionReader, Operation], None]] = {
    "scf.for": read_for,
    "scf.if": read_if,
    "scf.while": read_while,
}


class OperationReader(RegionReader):
    def operation(self) -> Operation:
        start = self.at
        outer = self.current
        token = self.tokens[start]
        results: tuple[str, ...] = ()
        if token[:1] == "%":
            self.current = ""
            results = self.result_names()
            token = self.tokens[self.at]
        self.current = token.strip('"')
        definition = TABLE.get(self.current)
        if definition is None:
            self.unknown(token)
        self.at += 1
        op = self.generic(definition, results) if token[:1] == '"' else self.defined(definition, results)
        self.check_results(definition, op, start)
        op.token = start
        if self.tokens[self.at] == "loc":
            op.loc = self.location()
        self.current = outer
        return op

    def unknown(self, token: str) -> NoReturn:
        self.current = ""
        if token[:1] == "^":
            self.fail("expected an operation; blocks with labels are not supported, use scf.if, scf.for or scf.while")
        if "." not in token:
            self.fail(f"expected an operation or '}}', found {self.shown_token()}")
        near = difflib.get_close_matches(token[:60].strip('"'), TABLE, n=1, cutoff=0.75)
        hint = f"; did you mean {near[0]}?" if near else ""
        self.fail(f"unknown operation {self.shown_token()}{hint}")

    def result_names(self) -> tuple[str, ...]:
        names: list[str] = []
        while True:
            token = self.value("a result name")
            base, colon, count = token.partition(":")
            if colon:
                if not 1 <= int(count[:6]) <= 256:
                    self.fail("expected 1 to 256 results", self.at - 1)
                names += [f"{base}#{i}" for i in range(int(count))]
            else:
                names.append(token)
            if self.tokens[self.at] != ",":
                break
            self.at += 1
        self.expect("=", "'=' after the results")
        return tuple(names)

    def check_results(self, definition: OpDef, op: Operation, start: int) -> None:
        count = len(op.results)
        expected = definition.results if definition.results >= 0 else len(op.result_types)
        if definition.fn == "call" and not op.result_types:
            return  # without a written type the callee's results are not known here
        if count != expected:
            self.fail(f"expected {expected} result name{'s' * (expected != 1)} before '=', found {count}", start)
        if definition.results > 0 and op.result_types and len(op.result_types) != expected:
            self.fail(
                f"expected {expected} result type{'s' * (expected != 1)}, found {len(op.result_types)}", self.at - 1
            )

    def defined(self, definition: OpDef, results: tuple[str, ...]) -> Operation:
        """Read the rest of an operation after its name, in the first of its forms that fits."""
        op = Operation(definition.name, results=results)
        special = READERS.get(definition.name)
        if special is not None:
            special(self, op)
        elif not definition.variants[0].format:
            self.ins_outs(definition, op)
        elif len(definition.variants) == 1:
            self.run(compile_format(definition.variants[0].format), definition, op)
        else:
            op = self.first_form(definition, results)
        return op

    def first_form(self, definition: OpDef, results: tuple[str, ...]) -> Operation:
        """Try each form; report the error of the form that got furthest."""
        start, errors = self.at, []
        for number_, form in enumerate(definition.variants):
            op = Operation(definition.name, results=results, variant=number_)
            self.at = start
            try:
                self.run(compile_format(form.format), definition, op)
                return op
            except PtoError as error:
                errors.append((self.at, -number_, error))
        raise max(errors, key=lambda e: e[:2])[2]

    # --- ins(…) outs(…) ------------------------------------------------------------------------------------------

    def ins_outs(self, definition: OpDef, op: Operation) -> None:
        tokens = self.tokens
        ins: tuple[list[str], list[Type]] = ([], [])
        outs: tuple[list[str], list[Type]] = ([], [])
        form = definition.variants[0]
        start = self.at
        if tokens[self.at] == "ins":
            self.at += 1
            ins = self.typed_list(form.ins, op.attrs, definition.trailing)
        elif form.ins and not (form.ins[0].optional or form.ins[0].many):
            self.expect("ins", "'ins('")
        if tokens[self.at] == "outs":
            self.at += 1
            outs = self.typed_list(form.outs, None)
        elif form.outs:
            self.expect("outs", "'outs('")
        if tokens[self.at] == "{":
            self.attr_dict(op.attrs)
        chosen = choose_variant(definition, len(ins[0]), len(outs[0]), ins[1])
        if chosen is None:
            self.fail(
                f"expected {describe_variants(definition)}, found {len(ins[0])} in ins and {len(outs[0])} in outs",
                start,
            )
        op.variant = chosen
        form = definition.variants[chosen]
        assign(op, form.ins, *ins)
        assign(op, form.outs, *outs)

    def typed_list(
        self, roles: Sequence[object], attrs: dict[str, Attribute] | None, trailing: str = ""
    ) -> tuple[list[str], list[Type]]:
        """`(%a, %b {attributes} : T, T)` after `ins` or `outs`."""
        tokens = self.tokens
        self.expect("(", "'('")
        values: list[str] = []
        types: list[Type] = []
        while tokens[self.at][:1] == "%":
            values.append(self.value())
            if tokens[self.at] != ",":
                break
            self.at += 1
        if tokens[self.at] == "{" and attrs is not None:
            self.attr_dict(attrs)
        if tokens[self.at] == ":":
            self.at += 1
            kinds = tuple(getattr(role, "kind", "") for role in roles)
            types = self.type_list(kinds)
            while tokens[self.at] == "," and tokens[self.at + 1][:1] == "%":  # `%a : T, %b : T`
                self.at += 1
                values.append(self.value())
                self.expect(":", "':' and the type")
                types += self.type_list()
            if len(types) > len(values):
                self.fail(
                    f"expected {len(values)} type{'s' * (len(values) != 1)} here, found {len(types)}", self.at - 1
                )
        if trailing and attrs is not None and tokens[self.at] == "," and tokens[self.at + 1][:1] == '"':
            self.at += 1
            attrs[trailing] = self.attribute()
        self.expect(")", "',' or ')'" if types else "',', ':' with the types, or ')'")
        return values, types

    # --- the quoted form -----------------------------------------------------------------------------------------

    def generic(self, definition: OpDef, results: tuple[str, ...]) -> Operation:
        """`"name"(%a) <{properties}> {attributes} : (T) -> (R)`, after the name."""
        op = Operation(definition.name, results=results, variant=GENERIC)
        start = self.at
        self.expect("(", "'('")
        values = self.value_list(")")
        self.expect(")", "',' or ')'")
        if self.accept("<"):
            self.attr_dict(op.attrs)
            self.expect(">", "'>' after the properties")
        if self.tokens[self.at] == "(":
            self.fail("expected no region here: operations with regions are written in their own form")
        if self.tokens[self.at] == "{":
            op.variant = GENERIC if op.attrs else GENERIC_PLAIN
            self.attr_dict(op.attrs)
        self.expect(":", "':' and the operation's type")
        signature = self.function_type()
        if len(signature.inputs) != len(values):
            self.fail(f"expected {len(values)} operand types, found {len(signature.inputs)}", self.at - 1)
        op.result_types = signature.results
        roles = generic_roles(definition, signature.inputs)
        if roles is None:
            self.fail(f"expected {describe_variants(definition)}, found {len(values)} operands", start)
        assign(op, roles, values, signature.inputs)
        return op

    # --- formats -------------------------------------------------------------------------------------------------

    def run(self, steps: tuple[Directive, ...], definition: OpDef, op: Operation) -> None:
        """Read the parts of a format into `op`."""
        for step in steps:
            code = step.code
            if code == "lit":
                self.expect(step.name)
            elif code == "$":
                role = definition.role(step.name, op.variant)
                if role is not None and role.many:
                    op.operands[step.name] = tuple(self.value_list(")" if self.tokens[self.at] == ")" else "]"))
                else:
                    op.operands[step.name] = (self.value(f"the value of {step.name}"),)
            elif code == "opt":
                if self.present(step.body[0]):
                    self.run(step.body, definition, op)
            elif code == "T$":
                for index, name in enumerate(step.name.split(",")):
                    if index:
                        self.expect(",", f"',' and the type of {name}")
                    role = definition.role(name, op.variant)
                    op.types[name] = (self.type(role.kind if role else ""),)
            elif code == "T=":
                op.result_types = (self.type("ptr" if op.name == "pto.addptr" else "tile"),)
            elif code == "{}":
                if self.tokens[self.at] == "{":
                    self.attr_dict(op.attrs)
            else:
                self.run_rare(step, op)

    def present(self, step: Directive) -> bool:
        token = self.tokens[self.at]
        if step.code in ("P", "N", "K"):
            return token == "("
        if step.code == "$":
            return token[:1] == "%"
        if step.code == "T=":
            return token[:1] == "!"
        if step.code == "A":
            return token[:1] in ("#", "<")
        return token == (step.name or "{")

    def run_rare(self, step: Directive, op: Operation) -> None:
        code, name = step.code, step.name
        if code == "A":
            op.attrs[name] = self.attribute()
        elif code == "W":
            op.attrs[name] = EnumAttr(self.word(f"the {name}"), name)
        elif code == "I":
            items = self.attribute()
            if not (isinstance(items, ArrayAttr) and all(isinstance(item, IntAttr) for item in items.items)):
                self.fail(f"expected a list of integers for {name}", self.at - 1)
            op.attrs[name] = items
        elif code == "C":
            self.constant(op)
        elif code == "V":
            if self.tokens[self.at][:1] == "%":
                op.operands[name] = tuple(self.value_list(""))
                if self.accept(":"):
                    op.types[name] = tuple(self.type_list())
        elif code == "F":
            signature = self.function_type()
            if signature.inputs:
                op.types["args"] = signature.inputs
            op.result_types = signature.results
        elif code == "R":
            op.regions = (self.region(),)
        else:
            self.group(step, op)

    def constant(self, op: Operation) -> None:
        """`0 : i64`, `true`, `1.0e+00 : f32`."""
        start = self.at
        value = self.attribute()
        type_ = getattr(value, "type", None)
        if type_ is None and self.accept(":"):
            type_ = self.type()
            fitting = number(self.tokens[start], type_)
            if fitting is None and not isinstance(value, RawAttr):
                self.fail(f"expected a value of type {type_}, found {self.shown_token(start)}", start)
            value = fitting or value
        op.attrs["value"] = value
        op.result_types = () if type_ is None else (type_,)

    def group(self, step: Directive, op: Operation) -> None:
        """Read values in parentheses (P, N and K)."""
        self.expect("(", "'('")
        order: list[str] = []
        if step.code == "K":
            self.keyed(op, {name for _, names in step.groups for name in names})
        else:
            for keyword, names in step.groups:
                role = TABLE[op.name].role(names[0], op.variant)
                if self.tokens[self.at] in (":", ")") and (role is None or role.optional or role.many):
                    continue
                if order:
                    self.expect(",", f"',' and {keyword or names[0]}")
                if keyword:
                    self.expect(keyword)
                    self.expect("(", "'('")
                values = (
                    self.value_list(")") if role is not None and role.many else [self.value(f"the value of {names[0]}")]
                )
                op.operands[names[0]] = tuple(values)
                order += [names[0]] * len(values)
                if keyword:
                    self.expect(")", "',' or ')'")
            if step.code == "P" and self.accept(":"):
                self.group_types(op, order)
        self.expect(")", "',' or ')'")

    def group_types(self, op: Operation, order: list[str]) -> None:
        """Read the types of a group's values; `%a : T, %b : T` for a role that takes any number."""
        types = self.type_list()
        last = TABLE[op.name].role(order[-1], op.variant) if order else None
        while last is not None and last.many and self.accept(","):
            op.operands[last.name] = (*op.operands[last.name], self.value())
            order.append(last.name)
            self.expect(":", "':' and the type")
            types += self.type_list()
        if len(types) != len(order):
            self.fail(f"expected {len(order)} type{'s' * (len(order) != 1)}, found {len(types)}", self.at - 1)
        for name in dict.fromkeys(order):
            op.types[name] = tuple(t for t, n in zip(types, order, strict=True) if n == name)

    def keyed(self, op: Operation, names: set[str]) -> None:
        """`name = %value : T, …`."""
        while True:
            name = self.word(f"one of {', '.join(sorted(names))}")
            if name not in names or name in op.operands:
                self.fail(
                    f"expected one of {', '.join(sorted(names - op.operands.keys()))}, found '{name[:40]}'", self.at - 1
                )
            self.expect("=", "'='")
            op.operands[name] = (self.value(),)
            self.expect(":", "':' and the type")
            op.types[name] = (self.type(),)
            if not self.accept(","):
                return
