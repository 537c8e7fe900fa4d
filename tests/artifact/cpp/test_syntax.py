"""Reading names, numbers and calls off the syntax tree."""

from __future__ import annotations

import pytest
from tree_sitter import Node

from pypto_build.artifact.cpp.syntax import (
    NestedTooDeeply,
    call_arguments,
    callee,
    declared_name,
    integer,
    parse,
    source_text,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("42", 42),
        ("42u", 42),
        ("1'000ULL", 1000),
        ("0x1F", 31),
        ("0b101", 5),
        ("017", 15),
        ("00", 0),
        ("(7)", 7),
        ("1.0f", None),
        ("a", None),
        ("", None),
        ("9" * 80, None),
        ("08", None),
    ],
)
def test_integer(text: str, value: int | None) -> None:
    assert integer(text) == value


def first(root: Node, kind: str) -> Node:
    """The first node of a kind."""
    pending = [root]
    while pending:
        node = pending.pop()
        if node.type == kind:
            return node
        pending += reversed(node.named_children)
    raise AssertionError(kind)


@pytest.mark.parametrize(
    ("text", "name", "owner", "arguments"),
    [
        ("f(a, 1);", "f", None, ["a", "1"]),
        ("ns::f<int>(a);", "f", None, ["a"]),
        ("x.f(/* c */ a);", "f", "x", ["a"]),
        ("p->launch.f<3>();", "f", "p->launch", []),
    ],
)
def test_call(text: str, name: str, owner: str | None, arguments: list[str]) -> None:
    node = first(parse(f"void g() {{ {text} }}".encode()), "call_expression")
    called, owner_node = callee(node)
    assert (called, source_text(owner_node) if owner_node else None) == (name, owner)
    assert [source_text(argument) for argument in call_arguments(node)] == arguments


@pytest.mark.parametrize(
    ("text", "name"),
    [("int a = 1;", "a"), ("const T &b = c;", "b"), ("T *d[2];", "d"), ("T e(f);", "e"), ("T g{1};", "g")],
)
def test_declared_name(text: str, name: str) -> None:
    node = first(parse(f"void g() {{ {text} }}".encode()), "declaration")
    assert declared_name(node.child_by_field_name("declarator")) == name


@pytest.mark.parametrize("text", [b"void f() { " + b"if (x) {" * 20_000, b"{" * 20_000 + b"}" * 20_000])
def test_brackets_without_end_are_refused_at_once(text: bytes) -> None:
    with pytest.raises(NestedTooDeeply):
        parse(text)
