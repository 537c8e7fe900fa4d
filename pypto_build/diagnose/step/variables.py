"""A kernel that tells what its variables hold: its text with a PYPTO_VARIABLE behind each declaration and assignment,
compiled as the checked build is. Lines keep their numbers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tree_sitter import Node

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.cpp.syntax import NestedTooDeeply, Unparseable, declared_name, parse
from pypto_build.artifact.files import read_source

#: Where a statement may have another one behind it.
_SPACES = re.compile(rb"\b__(?:gm|ubuf|cbuf|ca|cb|cc|aicore)__(?!\w)")
_BLOCKS = ("compound_statement", "preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "case_statement")
_FUNCTIONS = ("function_definition", "lambda_expression")


@dataclass(frozen=True)
class Kernel:
    """A kernel's text with what tells its variables; of each function the names of parameters and of loop variables,
    in the order of the text."""

    text: str
    parameters: dict[str, list[str]]
    loops: dict[str, list[str]]


def instrument(source: str) -> Kernel:
    """The kernel with its variables told. Raises Unparseable and NestedTooDeeply."""
    data = source.encode()
    told: list[tuple[int, str]] = []
    parameters: dict[str, list[str]] = {}
    loops: dict[str, list[str]] = {}
    for node, function in _nodes(parse(_without_spaces(data))):
        if node.type == "function_definition" and function and node.child_by_field_name("body") is not None:
            parameters[function] = _parameters(node)
        if node.type == "for_statement":
            loops.setdefault(function, []).extend(_initialised(node.child_by_field_name("initializer")))
        if function:
            told += _told(node)
    for at, name in sorted(told, reverse=True):
        data = data[:at] + f" PYPTO_VARIABLE({name});".encode() + data[at:]
    return Kernel(data.decode(errors="replace"), parameters, loops)


def _without_spaces(data: bytes) -> bytes:
    """The text with blanks for the names of memories and of the core, which are macros and no C++: `__gm__ half* x`."""
    lines = data.splitlines(keepends=True)
    blank = (
        line if line.lstrip().startswith(b"#") else _SPACES.sub(lambda found: b" " * len(found[0]), line)
        for line in lines
    )
    return b"".join(blank)


def _nodes(root: Node) -> Iterator[tuple[Node, str]]:
    """All nodes with the function they are in; those of functions that are evaluated by the compiler are left out."""
    todo = [(root, "")]
    while todo:
        node, function = todo.pop()
        if node.type == "function_definition":
            head = (node.text or b"").partition(b"{")[0]
            if b"constexpr" in head or b"consteval" in head:
                continue
            function = declared_name(node.child_by_field_name("declarator")) or function
        yield node, function
        todo += [(child, function) for child in reversed(node.named_children)]


def _told(node: Node) -> list[tuple[int, str]]:
    """The places behind which a variable is told, and which."""
    in_block = node.parent is not None and node.parent.type in _BLOCKS
    if node.type == "declaration" and in_block and not _static(node):
        return [(node.end_byte, name) for name in _initialised(node)]
    if node.type == "expression_statement" and in_block:
        return [(node.end_byte, name) for name in _changed(node.named_children[:1])]
    body = node.child_by_field_name("body")
    if body is None or body.type != "compound_statement":
        return []
    if node.type == "for_statement":
        return [(body.start_byte + 1, name) for name in _initialised(node.child_by_field_name("initializer"))]
    if node.type == "function_definition":
        return [(body.start_byte + 1, name) for name in _parameters(node)]
    return []


def _static(node: Node) -> bool:
    return any(child.type == "storage_class_specifier" for child in node.named_children)


def _initialised(node: Node | None) -> list[str]:
    """The variables that a declaration gives a value."""
    if node is None or node.type != "declaration":
        return []
    declarators = [child for child in node.children_by_field_name("declarator") if child.type == "init_declarator"]
    return [name for one in declarators if not _array(one) and (name := declared_name(one))]


def _array(declarator: Node) -> bool:
    inner = declarator.child_by_field_name("declarator")
    return inner is not None and inner.type in ("array_declarator", "function_declarator")


def _changed(expressions: list[Node]) -> list[str]:
    """The variable that a statement assigns, counts up or, being a tile, places."""
    for node in expressions:
        if node.type == "call_expression":
            arguments = node.child_by_field_name("arguments")
            function = node.child_by_field_name("function")
            given = arguments.named_children if arguments is not None else []
            if function is not None and function.text in (b"TASSIGN", b"pto::TASSIGN") and given:
                return _name(given[0])
        if node.type == "assignment_expression":
            return _name(node.child_by_field_name("left"))
        if node.type == "update_expression":
            return _name(node.child_by_field_name("argument"))
    return []


def _name(node: Node | None) -> list[str]:
    return [(node.text or b"").decode()] if node is not None and node.type == "identifier" else []


def _parameters(node: Node) -> list[str]:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    listed = declarator.child_by_field_name("parameters") if declarator is not None else None
    given = listed.named_children if listed is not None else []
    return [name for one in given if (name := declared_name(one.child_by_field_name("declarator")))]


def compile_kernel(source: Path, core_type: str, platform: str, library: Path) -> Kernel:
    """The kernel that tells its variables, as a library. Raises a build_error."""
    from pypto_build.facts.platforms import PLATFORMS
    from pypto_build.toolchain.host import CHECKED_FLAGS, INCLUDE_DIR, find_compiler, kernel_flags

    try:
        kernel = instrument(read_source(source))
    except (Unparseable, NestedTooDeeply):
        raise ArtifactError(source, "is not read as C++", kind="build_error") from None
    library.parent.mkdir(parents=True, exist_ok=True)
    told = library.with_suffix(".cpp")
    told.write_text(f'#line 1 "{source}"\n{kernel.text}', encoding="utf-8")
    compiler = find_compiler()
    words = [compiler.path, *kernel_flags(compiler, PLATFORMS[platform], core_type), *CHECKED_FLAGS, "-O1"]
    words += [
        "-I",
        str(INCLUDE_DIR),
        "-I",
        str(source.parent),
        "-include",
        str(Path(__file__).with_name("variables.hpp")),
    ]
    words += ["-shared", str(told), "-o", str(library)]
    process = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if process.returncode:
        reason = next((line for line in process.stderr.splitlines() if "error:" in line), process.stderr.strip()[:200])
        raise ArtifactError(source, f"cannot be compiled to tell its variables: {reason}", kind="build_error")
    return kernel
