"""Walks an orchestration's entry function statement by statement and keeps what it submits and what it touches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from tree_sitter import Node

from .cpp import call_arguments, callee, declared_name, integer, line_of, source_text, template_arguments
from .cpp_calls import FUNCTIONS, METHODS, PLAIN_FIELDS, TASK_ARGS_TYPE
from .cpp_values import UNKNOWN, Function, TaskArgs, Value, join
from .dtypes import torch_name
from .records import ArgDirection, CoreType, Signature

_MAX_DEPTH = 24
_MAX_TRIPS = 4096
_EXPRESSION_SUFFIX = ("_expression", "_literal", "identifier")


class Submission(msgspec.Struct, frozen=True):
    """One submit call: the kernels it submits (each, if ``exact``; any, otherwise) and the directions of its tensors."""

    line: int
    func_ids: frozenset[int]
    exact: bool
    open: bool
    core_type: CoreType | None
    signature: Signature


class Touch:
    """How the code uses one external tensor."""

    def __init__(self) -> None:
        self.read = self.written = self.inout = False


class Walker:
    """State of one walk: scopes, submissions in order, and what is known of each entry argument."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.scopes: list[dict[str, Value]] = [{}]
        self.submissions: list[Submission] = []
        self.touches: dict[int, Touch] = {}
        self.tensor_slots: set[int] = set()
        self.scalar_slots: set[int] = set()
        self.tensor_names: dict[int, str] = {}
        self.tensor_dtypes: dict[int, str] = {}
        self.scalar_names: dict[int, str] = {}
        self.scalar_dtypes: dict[int, str] = {}
        self.shares_slots = False
        self._active: list[Node] = []
        self._returns: list[list[Value]] = []
        self._in_loop = False

    def run(self, entry: str) -> bool:
        """Walks function ``entry``; false if there is none."""
        self._globals(self.root)
        found = self.lookup(entry)
        if not found.functions:
            return False
        function = found.functions[-1]
        arguments: list[Value] = []
        for parameter in function.parameters:
            type_text = source_text(parameter)
            is_args = "Args" in type_text or "TaskArg" in type_text or "OrchArg" in type_text or "uint64_t" in type_text
            self.shares_slots |= is_args and "*" in type_text
            arguments.append(Value(is_entry=is_args, is_runtime="Runtime" in type_text))
        self.call(function, arguments, [])
        return True

    # -- what the calls report ----------------------------------------------------------------------------------

    def touch(self, value: Value, direction: ArgDirection) -> None:
        """The code hands ``value`` to a task (or accesses it) in ``direction``."""
        for ref in value.refs:
            touch = self.touches.setdefault(ref.slot, Touch())
            if direction is ArgDirection.INOUT or (direction is ArgDirection.OUT and ref.part):
                touch.inout = True
            elif direction is ArgDirection.OUT:
                touch.written = True
            else:
                touch.read = True

    def direction(self, slot: int) -> ArgDirection:
        """Direction of an external tensor; INOUT wherever the code leaves a doubt about a write."""
        touch = self.touches.get(slot)
        if touch is None:
            return ArgDirection.IN
        if touch.inout or (touch.read and touch.written):
            return ArgDirection.INOUT
        return ArgDirection.OUT if touch.written else ArgDirection.IN

    def submit(self, node: Node, ids: Value, args: TaskArgs | None, core_type: CoreType | None) -> None:
        """The code submits the kernels ``ids`` with ``args``."""
        directions = args.directions if args is not None else []
        self.submissions.append(
            Submission(
                line=line_of(node),
                func_ids=frozenset(number for number in ids.numbers if number >= 0),
                exact=ids.exact and not ids.open,
                open=ids.open or not ids.numbers,
                core_type=core_type,
                signature=tuple(d for d in directions if d is not ArgDirection.SCALAR),
            )
        )

    # -- scopes -------------------------------------------------------------------------------------------------

    def lookup(self, name: str) -> Value:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return UNKNOWN

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append({})
        try:
            yield
        finally:
            self.scopes.pop()

    def update(self, name: str, value: Value) -> None:
        """An assignment: the variable may be what it was or ``value``, since branches and loops are not told apart."""
        for scope in reversed(self.scopes):
            if name in scope:
                old = scope[name]
                scope[name] = value if _is_blank(old) else join([old, value])
                return

    # -- definitions at file level ------------------------------------------------------------------------------

    def _globals(self, node: Node, template_names: tuple[str, ...] = ()) -> None:
        for child in node.named_children:
            if child.type == "preproc_def":
                self._macro(child)
            elif child.type == "function_definition":
                self._define_function(child, list(template_names))
            elif child.type in ("declaration", "enum_specifier"):
                self.statement(child)
            elif child.type == "template_declaration":
                names = tuple(
                    declared_name(parameter.child_by_field_name("declarator"))
                    for listed in child.named_children
                    if listed.type == "template_parameter_list"
                    for parameter in listed.named_children
                )
                self._globals(child, names)
            elif child.type not in ("comment", "preproc_include", "preproc_function_def"):
                self._globals(child)

    def _macro(self, node: Node) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or body is None:
            return
        text = re.sub(r"/[/*].*", "", source_text(body)).strip()
        number = integer(text)
        value = self.lookup(text) if number is None else Value(numbers=frozenset({number}))
        self.scopes[-1][source_text(name)] = value

    def _define_function(self, node: Node, template_names: list[str]) -> None:
        declarator, body = node.child_by_field_name("declarator"), node.child_by_field_name("body")
        while declarator is not None and declarator.type != "function_declarator":
            declarator = declarator.child_by_field_name("declarator") or next(iter(declarator.named_children), None)
        if declarator is None or body is None:
            return
        name = declared_name(declarator)
        listed = declarator.child_by_field_name("parameters")
        function = Function(_parameters(listed), body, template_names, self.scopes[:1])
        known = self.scopes[0].get(name, UNKNOWN)
        self.scopes[0][name] = Value(functions=(*known.functions, function))

    # -- statements ---------------------------------------------------------------------------------------------

    def statement(self, node: Node) -> None:
        handler = _STATEMENTS.get(node.type)
        if handler is not None:
            handler(self, node)
        elif node.type.endswith(_EXPRESSION_SUFFIX):
            self.value(node)
        else:
            self.each(node)

    def each(self, node: Node) -> None:
        for child in node.named_children:
            self.statement(child)

    def block(self, node: Node) -> None:
        with self.scope():
            self.each(node)

    def scope_macro(self, node: Node) -> None:
        """``PTO2_SCOPE(...) {`` looks like a nested function definition to the grammar."""
        body = node.child_by_field_name("body")
        if body is not None:
            self.statement(body)

    def returned(self, node: Node) -> None:
        for child in node.named_children:
            value = self.value(child)
            if self._returns:
                self._returns[-1].append(value)

    def loop(self, node: Node) -> None:
        outermost, self._in_loop = not self._in_loop, True
        with self.scope():
            for _ in range(2 if outermost else 1):
                for part in ("initializer", "condition", "update"):
                    child = node.child_by_field_name(part)
                    if child is not None:
                        self.statement(child)
                self._trips(node)
                body = node.child_by_field_name("body")
                if body is not None:
                    self.statement(body)
        if outermost:
            self._in_loop = False

    def range_loop(self, node: Node) -> None:
        container, body = node.child_by_field_name("right"), node.child_by_field_name("body")
        name = declared_name(node.child_by_field_name("declarator"))
        with self.scope():
            if container is not None and name:
                self.scopes[-1][name] = join([self.value(container), UNKNOWN])
            if body is not None:
                self.statement(body)

    def _trips(self, node: Node) -> None:
        """Gives the counter of ``for (int i = a; i < b; i += c)`` all its values, where they are constant."""
        start, test, step = (node.child_by_field_name(part) for part in ("initializer", "condition", "update"))
        if start is None or start.type != "declaration" or test is None or test.type != "binary_expression":
            return
        name = declared_name(start.child_by_field_name("declarator"))
        operator, right = test.child_by_field_name("operator"), test.child_by_field_name("right")
        first = self._initial(start)
        last = _single(self.value(right)) if right is not None else None
        stride = self._stride(step)
        less = source_text(operator) if operator is not None else ""
        if None in (first, last, stride) or less not in ("<", "<=") or not stride or stride < 0:  # type: ignore[operator]
            self.scopes[-1][name] = Value(open=True)
            return
        assert first is not None and last is not None
        trips = range(first, last + (less == "<="), stride)
        exhaustive = len(trips) <= _MAX_TRIPS
        self.scopes[-1][name] = Value(numbers=frozenset(trips[:_MAX_TRIPS]), exact=False, open=not exhaustive)

    def _initial(self, declaration: Node) -> int | None:
        declarator = declaration.child_by_field_name("declarator")
        value = declarator.child_by_field_name("value") if declarator is not None else None
        return _single(self.value(value)) if value is not None else None

    def _stride(self, step: Node | None) -> int | None:
        if step is None:
            return None
        if step.type == "update_expression":
            return 1 if "++" in source_text(step) else None
        operator, right = step.child_by_field_name("operator"), step.child_by_field_name("right")
        if operator is None or right is None or source_text(operator) != "+=":
            return None
        return _single(self.value(right))

    def declaration(self, node: Node) -> None:
        type_node = node.child_by_field_name("type")
        type_text = source_text(type_node) if type_node is not None else ""
        if type_node is not None and type_node.type == "enum_specifier":
            self.enumeration(type_node)
        for declarator in node.children_by_field_name("declarator"):
            name = declared_name(declarator)
            if not name:
                continue
            initial = declarator.child_by_field_name("value")
            value = self.value(initial) if initial is not None else UNKNOWN
            if TASK_ARGS_TYPE.match(type_text) and value.args is None:
                value = Value(args=TaskArgs())
            self._name_argument(name, type_text, value)
            self.scopes[-1][name] = value

    def _name_argument(self, name: str, type_text: str, value: Value) -> None:
        """The first variable made from an entry argument names it."""
        if len(value.refs) == 1:
            (ref,) = value.refs
            if not ref.part:
                self.tensor_names.setdefault(ref.slot, name.removeprefix("ext_"))
        read_from = value.scalars | value.slots
        if len(read_from) == 1 and not value.refs:
            (slot,) = read_from
            self.scalar_names.setdefault(slot, name)
            dtype = torch_name(value.ctype or type_text)
            if dtype is not None:
                self.scalar_dtypes.setdefault(slot, dtype)

    def enumeration(self, node: Node) -> None:
        following: int | None = 0
        body = node.child_by_field_name("body")
        for item in body.named_children if body is not None else []:
            if item.type != "enumerator":
                continue
            name, given = item.child_by_field_name("name"), item.child_by_field_name("value")
            number = following if given is None else _single(self.value(given))
            if name is not None and number is not None:
                self.scopes[-1][source_text(name)] = Value(numbers=frozenset({number}))
            following = None if number is None else number + 1

    # -- expressions --------------------------------------------------------------------------------------------

    def value(self, node: Node) -> Value:
        handler = _EXPRESSIONS.get(node.type)
        if handler is not None:
            return handler(self, node)
        self.each(node)
        return UNKNOWN

    def call(self, function: Function, arguments: list[Value], template: list[Value]) -> Value:
        """What a helper function or lambda returns, having walked its body with these arguments."""
        if function.body in self._active or len(self._active) >= _MAX_DEPTH:
            return join([argument.as_part() for argument in arguments]) if arguments else UNKNOWN
        names = [declared_name(parameter.child_by_field_name("declarator")) for parameter in function.parameters]
        local = dict(zip(names, arguments, strict=False)) | dict(zip(function.template_names, template, strict=False))
        for name, parameter in zip(names, function.parameters, strict=True):
            default = parameter.child_by_field_name("default_value")
            if name not in local and default is not None:
                local[name] = self.value(default)
        outer, self.scopes = self.scopes, [*function.scopes, local]
        self._active.append(function.body)
        self._returns.append([])
        try:
            self.statement(function.body)
            returned = self._returns[-1]
            return join(returned) if returned else UNKNOWN
        finally:
            self._returns.pop()
            self._active.pop()
            self.scopes = outer

    def _call_expression(self, node: Node) -> Value:
        name, owner_node = callee(node)
        arguments = [self.value(argument) for argument in call_arguments(node)]
        if owner_node is not None:
            owner = self.value(owner_node)
            method = METHODS.get(name)
            return method(self, node, owner, arguments) if method is not None else UNKNOWN
        known = FUNCTIONS.get(name)
        if known is not None:
            return known(self, node, arguments)
        functions = self.lookup(name).functions
        if functions:
            template = [self.value(argument) for argument in template_arguments(node)]
            fitting = [f for f in functions if len(f.parameters) >= len(arguments)] or list(functions)
            return self.call(fitting[0], arguments, template)
        # An unseen function may return a view of anything it was given.
        return join([argument.as_part() for argument in arguments]) if arguments else UNKNOWN

    def _identifier(self, node: Node) -> Value:
        return self.lookup(source_text(node).rpartition("::")[2])

    def _number(self, node: Node) -> Value:
        number = integer(source_text(node))
        return UNKNOWN if number is None else Value(numbers=frozenset({number}))

    def _unary(self, node: Node) -> Value:
        operand = node.child_by_field_name("argument")
        number = _single(self.value(operand)) if operand is not None else None
        if number is not None and source_text(node).startswith("-"):
            return Value(numbers=frozenset({-number}))
        return UNKNOWN if number is None or not source_text(node).startswith("+") else Value(numbers=frozenset({number}))

    def _binary(self, node: Node) -> Value:
        operands = [node.child_by_field_name(side) for side in ("left", "right")]
        left, right = (_single(self.value(operand)) if operand is not None else None for operand in operands)
        operator = node.child_by_field_name("operator")
        sign = source_text(operator) if operator is not None else ""
        if left is None or right is None or sign not in ("+", "-", "*"):
            return UNKNOWN
        return Value(numbers=frozenset({left + right if sign == "+" else left - right if sign == "-" else left * right}))

    def _conditional(self, node: Node) -> Value:
        condition = node.child_by_field_name("condition")
        if condition is not None:
            self.value(condition)
        branches = [node.child_by_field_name(branch) for branch in ("consequence", "alternative")]
        return join([self.value(branch) for branch in branches if branch is not None])

    def _members(self, node: Node) -> Value:
        return join([self.value(child) for child in node.named_children if child.type != "comment"], exact=True)

    def _inner(self, node: Node) -> Value:
        child = node.child_by_field_name("argument") or node.child_by_field_name("value")
        child = child or next(iter(node.named_children), None)
        return self.value(child) if child is not None else UNKNOWN

    def _cast(self, node: Node) -> Value:
        target, inner = node.child_by_field_name("type"), self._inner_value(node)
        ctype = source_text(target) if target is not None else ""
        return msgspec.structs.replace(inner, ctype=inner.ctype or ctype) if inner.scalars or inner.slots else inner

    def _inner_value(self, node: Node) -> Value:
        child = node.child_by_field_name("value")
        return self.value(child) if child is not None else UNKNOWN

    def _field(self, node: Node) -> Value:
        owner, field = node.child_by_field_name("argument"), node.child_by_field_name("field")
        value = self.value(owner) if owner is not None else UNKNOWN
        return UNKNOWN if field is not None and source_text(field) in PLAIN_FIELDS else value

    def _subscript(self, node: Node) -> Value:
        owner_node, index_node = node.child_by_field_name("argument"), node.child_by_field_name("indices")
        owner = self.value(owner_node) if owner_node is not None else UNKNOWN
        index = self._members(index_node) if index_node is not None else UNKNOWN
        if owner.is_entry:
            self.scalar_slots |= index.numbers
            return Value(slots=index.numbers)
        return join([owner, UNKNOWN]) if owner.args is None else owner

    def _assignment(self, node: Node) -> Value:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        value = self.value(right) if right is not None else UNKNOWN
        if operator is not None and source_text(operator) != "=":
            value = Value(open=True)
        target = left
        while target is not None and target.type in ("field_expression", "subscript_expression", "pointer_expression"):
            target = target.child_by_field_name("argument")
        if left is not None and target is not None and target.type == "identifier":
            name = source_text(target)
            held = self.lookup(name)
            if held.args is not None and value.args is not None and left.type == "subscript_expression":
                held.args.directions += value.args.directions
            else:
                self.update(name, value)
        return value

    def _update(self, node: Node) -> Value:
        operand = node.child_by_field_name("argument")
        if operand is not None and operand.type == "identifier":
            self.update(source_text(operand), Value(open=True))
        return UNKNOWN

    def _lambda(self, node: Node) -> Value:
        declarator, body = node.child_by_field_name("declarator"), node.child_by_field_name("body")
        if body is None:
            return UNKNOWN
        listed = declarator.child_by_field_name("parameters") if declarator is not None else None
        return Value(functions=(Function(_parameters(listed), body, [], list(self.scopes)),))


def _parameters(listed: Node | None) -> list[Node]:
    kinds = ("parameter_declaration", "optional_parameter_declaration")
    return [child for child in listed.named_children if child.type in kinds] if listed is not None else []


def _single(value: Value) -> int | None:
    return next(iter(value.numbers)) if len(value.numbers) == 1 and not value.open else None


def _is_blank(value: Value) -> bool:
    return not (value.refs or value.numbers or value.open or value.args or value.functions or value.scalars)


_STATEMENTS = {
    "compound_statement": Walker.block,
    "function_definition": Walker.scope_macro,
    "declaration": Walker.declaration,
    "enum_specifier": Walker.enumeration,
    "return_statement": Walker.returned,
    "for_statement": Walker.loop,
    "while_statement": Walker.loop,
    "do_statement": Walker.loop,
    "for_range_loop": Walker.range_loop,
    "comment": lambda walker, node: None,
}

_EXPRESSIONS = {
    "identifier": Walker._identifier,
    "qualified_identifier": Walker._identifier,
    "type_descriptor": Walker._inner,
    "type_identifier": Walker._identifier,
    "number_literal": Walker._number,
    "unary_expression": Walker._unary,
    "binary_expression": Walker._binary,
    "conditional_expression": Walker._conditional,
    "initializer_list": Walker._members,
    "subscript_argument_list": Walker._members,
    "argument_list": Walker._members,
    "initializer_pair": Walker._inner,
    "parenthesized_expression": Walker._inner,
    "condition_clause": Walker._inner,
    "pointer_expression": Walker._inner,
    "compound_literal_expression": Walker._inner,
    "cast_expression": Walker._cast,
    "field_expression": Walker._field,
    "subscript_expression": Walker._subscript,
    "assignment_expression": Walker._assignment,
    "update_expression": Walker._update,
    "lambda_expression": Walker._lambda,
    "call_expression": Walker._call_expression,
}
