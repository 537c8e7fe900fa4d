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
from pypto_build.diagnose.passes.listing import Results, as_python

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
