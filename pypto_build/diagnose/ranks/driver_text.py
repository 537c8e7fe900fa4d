"""Reads a host driver as text: what it dispatches, with which arguments. Nothing of it is executed."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from pypto_build.artifact.files import read_source


@dataclass(frozen=True)
class DriverTensor:
    """One tensor of a dispatch: the name of host tensor or buffer, and the tag; empty where the text does not tell."""

    line: int
    tag: str
    tensor: str = ""
    buffer: str = ""


@dataclass
class DriverCall:
    """One place that dispatches `program`, a chip program, or a host callable."""

    program: str
    line: int
    is_host: bool = False
    known: bool = False  # whether all of its arguments are
    tensors: list[DriverTensor] = field(default_factory=list)
    scalars: list[int] = field(default_factory=list)  # their lines


@dataclass
class DriverText:
    """Names that a driver uses, with the first line of each, and its dispatches in order."""

    calls: list[DriverCall] = field(default_factory=list)
    read: dict[str, int] = field(default_factory=dict)  # host tensors
    made: set[str] = field(default_factory=set)  # those that it makes or names itself
    declared: set[str] = field(default_factory=set)  # buffers of domains
    buffers: dict[str, int] = field(default_factory=dict)  # those that it uses
    computes_names: bool = False  # a name that is no constant: what is not found may be there


_SUBMITS = {"_submit_chip": 1, "submit_chip": 0, "submit_next_level": 0, "submit_next_level_group": 0, "submit_sub": 0}


def read_driver(path: Path) -> DriverText:
    """Read the text of a driver. Raises `SyntaxError`, `ValueError` or `OSError` if it is not valid Python."""
    reader = _Reader()
    with warnings.catch_warnings():  # what Python thinks of its style
        warnings.simplefilter("ignore")
        tree = ast.parse(read_source(path))
    reader.visit(tree)
    return reader.found


class _Reader(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found = DriverText()
        self._arguments: dict[str, tuple[list[DriverTensor], list[int], bool]] = {}

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name) and _called(node.value) == "TaskArgs":
                self._arguments[target.id] = ([], [], True)
            name = _key(target, "tensors")
            if name:
                self.found.made.add(name)
            elif isinstance(target, ast.Subscript) and _is_name(target.value, "tensors"):
                self.found.computes_names = True
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if _is_name(node.value, "tensors") and isinstance(node.ctx, ast.Load):
            self._note(self.found.read, node)
        if isinstance(node.value, ast.Attribute) and node.value.attr == "buffers":
            self._note(self.found.buffers, node)
        self.generic_visit(node)

    def _note(self, names: dict[str, int], node: ast.Subscript) -> None:
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            names.setdefault(node.slice.value, node.lineno)

    def visit_Call(self, node: ast.Call) -> None:
        name = _called(node)
        if name == "CommBufferSpec":
            given = _word(node, "name", 0)
            if isinstance(given, ast.Constant):
                self.found.declared.add(str(given.value))
            else:
                self.found.computes_names = True
        elif name in ("add_tensor", "add_scalar") and isinstance(node.func, ast.Attribute):
            self._argument(node, name, node.func.value)
        elif name in _SUBMITS:
            self._submit(node, name)
        self.generic_visit(node)

    def _argument(self, node: ast.Call, name: str, owner: ast.expr) -> None:
        if not isinstance(owner, ast.Name) or owner.id not in self._arguments:
            return
        tensors, scalars, _ = self._arguments[owner.id]
        if name == "add_scalar":
            scalars.append(node.lineno)
            return
        tag = _word(node, "tag", 1)
        text = tag.attr if isinstance(tag, ast.Attribute) else "INPUT" if tag is None else ""
        inside = list(ast.walk(node.args[0])) if node.args else []
        tensor = next(filter(None, (_key(one, "tensors") for one in inside)), "")
        buffer = next(filter(None, map(_buffer, inside)), "")
        tensors.append(DriverTensor(node.lineno, text, tensor, buffer))

    def _submit(self, node: ast.Call, name: str) -> None:
        place = _SUBMITS[name]
        if len(node.args) <= place:
            return
        handle = node.args[place]
        program = _key(handle, "sub_ids" if name == "submit_sub" else "callables")
        if not program:
            self.found.computes_names = True
            return
        call = DriverCall(program, node.lineno, name == "submit_sub")
        args = node.args[place + 1] if len(node.args) > place + 1 else None
        if isinstance(args, ast.Name) and args.id in self._arguments:
            tensors, scalars, call.known = self._arguments[args.id]
            call.tensors, call.scalars = list(tensors), list(scalars)
        self.found.calls.append(call)


def _called(node: ast.AST) -> str:
    """The name of what a call calls."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _word(node: ast.Call, name: str, place: int) -> ast.expr | None:
    """An argument of a call, by name or place."""
    named = next((word.value for word in node.keywords if word.arg == name), None)
    return named if named is not None else node.args[place] if len(node.args) > place else None


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _key(node: ast.AST, owner: str) -> str:
    """The constant key of `owner["key"]`."""
    if not isinstance(node, ast.Subscript) or not _is_name(node.value, owner):
        return ""
    return str(node.slice.value) if isinstance(node.slice, ast.Constant) else ""


def _buffer(node: ast.AST) -> str:
    """The constant key of `….buffers["key"]`."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Attribute):
        return ""
    return str(node.slice.value) if node.value.attr == "buffers" and isinstance(node.slice, ast.Constant) else ""
