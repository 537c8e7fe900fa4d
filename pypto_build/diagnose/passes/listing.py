"""This compiler's listing of a program as Python of the same lines, so that one reader does for both compilers."""

from __future__ import annotations

import ast
import re

from pypto_build.diagnose.lint.text import split_arguments

_DIRECTION = re.compile(r"\b(\w+): (In|Out|InOut) ")
_FOR = re.compile(r"for (?P<name>\w+) in (?P<range>range\(.*?\))(?: carrying (?P<carried>.*))?:\Z")
_WHILE = re.compile(r"while(?: carrying (?P<carried>.*))?:\Z")
_BLOCK = re.compile(r"(?:for .* in |while\b|if )")

#: Marks of a task that are no Python: a word after keywords, and a comparison in words.
_WORD = re.compile(r", allow_early_resolve\b(?!=)")
_COMPARED = re.compile(r"\bpredicate=(\w+\[[^\]]*\]) \w+ (-?\d+)")

Results = dict[int, list[tuple[str, "ast.expr | None"]]]


def as_python(text: str) -> tuple[str, Results]:
    """The listing in Python's syntax, and the names (with types) that loops and branches define, by line."""
    results: Results = {}
    lines = [_line(line, number, results) for number, line in enumerate(text.splitlines(), 1)]
    return "\n".join(lines) + "\n", results


def _line(line: str, number: int, results: Results) -> str:
    code = line.lstrip()
    indent = line[: len(line) - len(code)]
    code = _COMPARED.sub(r"predicate=(\1, \2)", _WORD.sub(", allow_early_resolve=True", code))
    if code.startswith("def "):
        return indent + _DIRECTION.sub(r"\1: \2 | ", code.replace("valid=[", "["))
    if not code or code[0] == "#" or code in ("else:", "pass") or code.startswith("yield"):
        return line
    if code == "do:":
        return f"{indent}if True:"
    left, right = _halves(code)
    left = left.replace("valid=[", "[")  # a keyword within the brackets of a type
    if right.endswith(":") or (not left and code.endswith(":")):
        body = right if left else code
        if _BLOCK.match(body):
            if left:
                results[number] = [_typed(part) for part in _parts(left)]
            return indent + _block(body)
        return f"{indent}with {body}"
    parts = _parts(left)
    if len(parts) > 1:
        results[number] = [_typed(part) for part in parts]
        return f"{indent}{', '.join(part.split(':')[0] for part in parts)} = {right}"
    return f"{indent}{left} = {right}" if left else indent + code


def _block(code: str) -> str:
    loop, until = _FOR.match(code), _WHILE.match(code)
    if loop:
        names, values = _carried(loop["carried"])
        target = f"{loop['name']}, ({names})" if names else loop["name"]
        return f"for {target} in {loop['range'][:-1]}{f', ({values})' if values else ''}):"
    if until:
        names, values = _carried(until["carried"])
        return f"for _, ({names}) in range(({values})):" if names else "while True:"
    return code


def _carried(text: str | None) -> tuple[str, str]:
    """`a = b, c = d` as `a, c, ` and `b, d, `."""
    pairs = [part.partition(" = ")[::2] for part in _parts(text or "")]
    return "".join(f"{name}, " for name, _ in pairs), "".join(f"{value}, " for _, value in pairs)


def _halves(code: str) -> tuple[str, str]:
    """Split code at the first assignment outside of brackets; without one, the left side is empty."""
    depth = 0
    for position, sign in enumerate(code):
        depth += (sign in "([{") - (sign in ")]}")
        if not depth and code.startswith(" = ", position):
            left = code[:position]
            return ("", code) if _BLOCK.match(left) else (left, code[position + 3 :])
    return "", code


def _parts(text: str) -> list[str]:
    """The parts between commas outside of brackets."""
    return split_arguments(text, "([{", ")]}")


def _typed(text: str) -> tuple[str, ast.expr | None]:
    name, _, kind = text.partition(":")
    try:
        return name.strip(), ast.parse(kind.strip(), mode="eval").body if kind.strip() else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return name.strip(), None
