"""The programs that a compilation dumps after its passes, function by function.

PyPTO writes `passes_dump/NN_after_<Pass>.py`, Python with the decorators of its language; this compiler writes
`passes_dump/NN_after_<pass>.txt`, which becomes Python here, line for line. Both are only parsed, never executed.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import read_source
from pypto_build.diagnose.lint.text import split_arguments

# This compiler's listing of a program as Python of the same lines, so that one reader does for both compilers.

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


_DUMP = re.compile(r"(?P<number>\d{1,9})_(?:after_)?(?P<name>.+)\.(?:py|txt)\Z")
DIRECTORY = "passes_dump"
#: Levels of a syntax tree.
_MAX_NESTING = 120


@dataclass(frozen=True)
class DumpedFunction:
    """One function of a dump: its text from the first decorator or heading on, starting at `line`.

    `results` are what loops and branches of a listing define, by line: names and types.
    """

    name: str
    line: int
    lines: tuple[str, ...]
    node: ast.FunctionDef
    results: Results = field(default_factory=dict, compare=False)

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters, without `self`."""
        return [arg.arg for arg in self.node.args.args if arg.arg != "self"]


@dataclass(frozen=True)
class Dump:
    """The program after one pass; `error` is a line and what is wrong with it where the text cannot be parsed."""

    number: int
    name: str
    path: Path
    functions: dict[str, DumpedFunction]
    error: tuple[int, str] | None = None

    @property
    def title(self) -> str:
        """`34 MemoryReuse`."""
        return f"{self.number:02} {self.name}"


def dump_files(root: Path) -> list[Path]:
    """The dumps below an artifact, in the order of the passes. Raises where there are none."""
    directory = root / DIRECTORY
    found = [path for path in directory.glob("*") if _DUMP.match(path.name)] if directory.is_dir() else []
    if not found:
        way = "compile with DUMP_PASSES=1 (PyPTO: dump_passes=True)"
        raise ArtifactError(directory, "holds no program after a pass", way)
    return sorted(found, key=lambda path: (int(path.name.split("_")[0]), path.name))


def read_dump(path: Path) -> Dump:
    """One dump, parsed."""
    match = _DUMP.match(path.name)
    assert match is not None
    text = read_source(path)
    results: Results = {}
    source = text
    if path.suffix == ".txt":
        source, results = as_python(text)
    number, name = int(match["number"]), match["name"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the style of a file that nobody here wrote
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last two for endless nesting
        line = getattr(error, "lineno", 0) or 0
        return Dump(number, name, path, {}, (line, getattr(error, "msg", str(error)) or "is nested too deeply"))
    deep = _too_deep(tree)
    if deep:
        return Dump(number, name, path, {}, (deep, "is nested too deeply"))
    lines = text.splitlines()
    functions = {node.name: _function(node, lines, results) for node in _functions(tree)}
    return Dump(number, name, path, functions, None if functions else (0, "holds no function"))


def _too_deep(tree: ast.Module) -> int:
    """The line of what is nested deeper than anybody follows it; 0 if nothing is."""
    level: list[ast.AST] = [tree]
    for _ in range(_MAX_NESTING):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return 0
    return next((node.lineno for node in level if hasattr(node, "lineno")), 1)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in tree.body:
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef):
                yield inner


def _function(node: ast.FunctionDef, lines: list[str], results: Results) -> DumpedFunction:
    start = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    if not node.decorator_list and start > 1 and lines[start - 2].startswith("#"):
        start -= 1
    end = node.end_lineno or start
    return DumpedFunction(node.name, start, tuple(lines[start - 1 : end]), node, results)
