"""Collects the messages that a user can meet into a table: `python -m tests.messages > tests/messages.txt`.

A row is the room and the text with `{…}` for what is filled in. Rows are sorted, without files and lines, so that they
change only with a text. Read a changed row as a user would: what is wrong, where, what to do.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "pypto_build"
TABLE = Path(__file__).with_name("messages.txt")
#: Rooms whose messages are in the table.
ROOMS = (
    *("rules", "farm", "device", "client", "toolchain", "artifact", "compiler", "pto"),
    *("replay", "interop", "proof", "resident", "diagnose", "editor"),
)
#: Calls whose first text is shown to a user, besides those that raise.
_SHOWN = frozenset(
    {
        *("error", "warn", "note", "detail", "print", "fail", "refuse", "OptionError", "BuildFailure"),
        *("Finding", "Related", "Wrong", "in_kernel", "in_orchestration", "in_manifest", "_driver_finding", "_finding"),
    }
)
#: Arguments and variables that hold a part of a message.
_PARTS = frozenset({"message", "hint", "says", "what", "detail"})
#: What programmers alone meet.
_INTERNAL = frozenset({"AssertionError", "NotImplementedError", "KeyError", "TypeError", "StopIteration"})


def text_of(node: ast.expr) -> str | None:
    """Return a text as it stands in the source, with `{…}` for what is filled in; None if the node is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text_of(node.left) or "{…}", text_of(node.right) or "{…}"
        return None if left == right == "{…}" else left + right
    if isinstance(node, ast.IfExp):
        either = [text for text in (text_of(node.body), text_of(node.orelse)) if text]
        return " / ".join(either) or None
    return None


def messages_of(tree: ast.Module) -> Iterator[str]:
    """Yield the messages of a module; the parts of one are joined as they are printed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id in _PARTS for one in node.targets):
            text = " ".join((text_of(node.value) or "").split())
            if " " in text:
                yield text
        call = node.exc if isinstance(node, ast.Raise) else node
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in _INTERNAL or not (isinstance(node, ast.Raise) or name in _SHOWN):
            continue
        arguments = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg in _PARTS)]
        texts = [text_of(one) or "{…}" for one in arguments if not (isinstance(one, ast.Constant) and one.value == "")]
        text = " ".join("; ".join(texts).split())
        if " " in text.replace("{…}; ", "").replace("; {…}", ""):
            yield text


def table() -> str:
    """Return the table of all messages of the rooms."""
    rows = set()
    for room in ROOMS:
        for path in (PACKAGE / room).rglob("*.py"):
            rows |= {f"{room} | {text}" for text in messages_of(ast.parse(path.read_text(encoding="utf-8")))}
    return "".join(f"{row}\n" for row in sorted(rows))


if __name__ == "__main__":
    sys.stdout.write(table())
