"""Submissions of an orchestration as they are written: arguments with their lines, launch settings, names of tensors.

The walk (walk.py) follows calls and values; this reader says what stands where, in the order of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tree_sitter import Node

from pypto_build.facts.dtypes import torch_name

from .calls import TASK_ARGS_TYPE
from .syntax import NestedTooDeeply, Unparseable, call_arguments, callee, declared_name, descend, line_of, parse
from .syntax import source_text as text_of

_ADD_TENSOR = ("add_input", "add_output", "add_inout", "add_no_dep")
_LAUNCH = ("set_block_num", "set_core_num", "set_require_sync_start")
_VIEWS = ("view", "slice", "reshape", "transpose", "permute")
_TENSOR_TYPES = ("ChipTensor", "Tensor", "auto")
_SUBMIT = re.compile(r"(?:pto2_)?rt_submit_(?:(ai[cv])_)?task\Z")


@dataclass(frozen=True)
class Added:
    """One tensor argument: method, expression, line."""

    method: str
    expression: str
    line: int


@dataclass(eq=False)
class Submit:
    """One submit call with all calls that prepare its arguments and launch settings."""

    line: int
    func_ids: tuple[int, ...]
    core: str
    tensors: list[Added] = field(default_factory=list)
    scalars: list[int] = field(default_factory=list)
    late: list[Added] = field(default_factory=list)
    dependency_lines: list[int] = field(default_factory=list)
    block_num: int | None = None
    block_line: int = 0
    sync_line: int = 0

    def add(self, method: str, words: list[str], line: int) -> None:
        """Record a call that adds arguments or dependencies."""
        if method == "set_dependencies":
            self.dependency_lines.append(line)
        elif method.startswith("add_scalar"):
            self.scalars += [line] * (len(words) if method == "add_scalar" else 1)
        elif method in _ADD_TENSOR:
            added = [Added(method, expression, line) for expression in words]
            self.late += added if self.scalars else []
            self.tensors += added

    def set(self, setting: str, words: list[str], line: int) -> None:
        """Record a call that sets how the task is launched."""
        if setting == "set_require_sync_start":
            self.sync_line = line if words and words[0] in ("true", "1") else 0
        elif words and _is_number(words[0]):
            self.block_num, self.block_line = int(words[0]), line


@dataclass(frozen=True)
class Created:
    """A tensor that the runtime allocates; an extent that is not a literal is -1."""

    line: int
    dtype: str | None
    shape: tuple[int, ...]


class Scope(NamedTuple):
    """A scope of the runtime: its line, its offsets, and whether it is a manual one."""

    line: int
    start: int
    end: int
    manual: bool


class OrchestrationFile:
    """A file that submits tasks; it has no submissions if its text cannot be parsed.

    `entry_args` are lines of first use by kind and index, `allocations` the lines that allocate. `bases` maps a view or
    alias to its base variable. `shape_lines` are the lines with the extents of a variable. `declared` and `assigned`
    are the lines that declare a tensor or assign a variable.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.submits: list[Submit] = []
        self.externals: dict[str, int] = {}
        self.created: dict[str, Created] = {}
        self.bases: dict[str, str] = {}
        self.shape_lines: dict[str, int] = {}
        self.declared: dict[str, list[int]] = {}
        self.assigned: dict[str, list[int]] = {}
        self.expected: tuple[int, int] | None = None
        self.entry_args: dict[str, dict[int, int]] = {"tensor": {}, "scalar": {}}
        self.allocations: list[int] = []
        self.scopes: list[Scope] = []
        self._collected: dict[str, Submit] = {}  # argument lists by variable
        self._mixed: dict[str, tuple[int, ...]] = {}
        self._shapes: dict[str, tuple[int, tuple[int, ...]]] = {}  # lines and extents
        self._infos: dict[str, tuple[int, Created]] = {}  # with the line of the shape
        self._allocated: dict[str, list[str]] = {}
        with suppress(Unparseable, NestedTooDeeply):
            for node in descend(parse(text.encode())):
                if handler := _HANDLERS.get(node.type):
                    handler(self, node)
        for name in self.assigned:  # after its declaration: no name for one tensor
            self.bases.pop(name, None)

    def base(self, variable: str) -> str:
        """Return the base variable of a view or alias."""
        seen: set[str] = set()
        while variable in self.bases and variable not in seen:
            seen.add(variable)
            variable = self.bases[variable]
        return variable

    def _declaration(self, node: Node) -> None:
        type_node = node.child_by_field_name("type")
        type_ = text_of(type_node) if type_node is not None else ""
        for declarator in node.children_by_field_name("declarator"):
            name, value = declared_name(declarator), declarator.child_by_field_name("value")
            if TASK_ARGS_TYPE.match(type_):
                self._collected[name] = Submit(0, (), "")
            elif value is None:
                continue
            elif type_ == "MixedKernels":
                self._mixed[name] = _numbers(_items(value))
            elif type_ == "uint32_t":
                extents = tuple(int(item) if _is_number(item) else -1 for item in _items(value))
                self._shapes[name] = line_of(node), extents
            elif type_ == "TensorCreateInfo":
                self._infos[name] = self._info(line_of(node), _items(value))
            elif type_ == "TaskOutputTensors" and value.type == "call_expression":
                self._allocated[name] = _items(value)
                self.allocations.append(line_of(node))
            elif type_ in _TENSOR_TYPES:
                self.declared.setdefault(name, []).append(line_of(declarator))
                if (base := _base(value)) not in ("", "orch_args"):
                    self.bases[name] = base
            if value is not None:
                self._named(name, value)

    def _info(self, line: int, words: list[str]) -> tuple[int, Created]:
        dtypes = [word.removeprefix("DataType::") for word in words if word.startswith("DataType::")]
        shape_line, extents = self._shapes.get(words[0] if words else "", (0, ()))
        return shape_line, Created(line, torch_name(dtypes[0]) if dtypes else "float32", extents)

    def _named(self, name: str, value: Node) -> None:
        """Record the tensor that a variable refers to: an allocated tensor or an entry argument."""
        while value.type == "call_expression":
            method, owner = callee(value)
            arguments = call_arguments(value)
            index = _numbers([text_of(one) for one in arguments[:1]])
            if method == "get_ref" and owner is not None and index:
                listed = self._allocated.get(text_of(owner), [])
                if index[0] < len(listed) and listed[index[0]] in self._infos:
                    self.shape_lines[name], self.created[name] = self._infos[listed[index[0]]]
            elif method == "view" and arguments:
                self.shape_lines.setdefault(name, self._shapes.get(text_of(arguments[0]), (0, ()))[0])
            elif method == "tensor" and owner is not None and text_of(owner) == "orch_args" and index:
                self.externals[name] = index[0]
            inner = arguments[0] if method == "from_tensor_arg" and arguments else owner
            if inner is None:
                return
            value = inner

    def _assignment(self, node: Node) -> None:
        """Record `a = b`, or `.a = b` in a list."""
        target = node.child_by_field_name("left") or node.child_by_field_name("designator")
        value = node.child_by_field_name("right") or node.child_by_field_name("value")
        if target is None or value is None:
            return
        if target.type == "identifier":
            self.assigned.setdefault(text_of(target), []).append(line_of(node))
            self._named(text_of(target), value)
        elif text_of(target).endswith("expected_arg_count") and _is_number(text_of(value)):
            self.expected = self.expected or (int(text_of(value)), line_of(target))

    def _scope(self, node: Node) -> None:
        """Record `PTO2_SCOPE(…) {…}`, which the grammar parses as a function."""
        declarator = node.child_by_field_name("declarator")
        if declarator is not None and declared_name(declarator) == "PTO2_SCOPE":
            manual = "MANUAL" in text_of(declarator)
            self.scopes.append(Scope(line_of(node), node.start_byte, node.end_byte, manual))

    def _call(self, node: Node) -> None:
        name, owner = callee(node)
        words, line = _items(node), line_of(node)
        if owner is None:
            if (match := _SUBMIT.match(name)) and len(words) >= 2:
                task = self._collected.get(words[-1], Submit(0, (), ""))
                func_ids = self._mixed.get(words[-2]) or _numbers([words[-2]])
                self.submits.append(replace(task, line=line, func_ids=func_ids, core=match[1] or ""))
        elif owner.type == "identifier":
            if name in ("tensor", "scalar") and text_of(owner) == "orch_args" and (index := _numbers(words)):
                self.entry_args[name].setdefault(index[0], line)
            elif name.startswith("add_") or name == "set_dependencies":
                self._collected.setdefault(text_of(owner), Submit(0, (), "")).add(name, words, line)
        elif name in _LAUNCH and (task_name := owner.child_by_field_name("argument")) is not None:
            self._collected.setdefault(text_of(task_name), Submit(0, (), "")).set(name, words, line)


_HANDLERS: dict[str, Callable[[OrchestrationFile, Node], None]] = {
    "declaration": OrchestrationFile._declaration,
    "assignment_expression": OrchestrationFile._assignment,
    "initializer_pair": OrchestrationFile._assignment,
    "function_definition": OrchestrationFile._scope,
    "call_expression": OrchestrationFile._call,
}


def _items(node: Node) -> list[str]:
    """Return the members of `{…}`, or the arguments of a call or constructor."""
    listed = node.child_by_field_name("arguments") or node
    return [text_of(child) for child in listed.named_children if child.type != "comment"]


def _base(value: Node) -> str:
    """Return the variable that an expression names or views; empty for other expressions."""
    while value.type == "call_expression":
        method, owner = callee(value)
        if method not in _VIEWS or owner is None:
            return ""
        value = owner
    return text_of(value) if value.type == "identifier" else ""


def _numbers(words: list[str]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(word) for word in words if _is_number(word)))


def _is_number(word: str) -> bool:
    return word.isdecimal() and len(word) < 10
