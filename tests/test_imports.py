"""Imports go one way, and nothing heavy is loaded where it would be felt in every edit."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.rows import every

PACKAGE = Path(__file__).resolve().parents[1] / "pypto_build"
ARCHITECTURE = PACKAGE.parent / "docs" / "architecture.md"

MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


@cache
def syntax(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


def allowed() -> dict[str, set[str]]:
    """Return the imports that each part may have, from the right-hand column of the architecture's table in section
    3.
    """
    rows = re.findall(r"^  (\w+)(?:/|\.py) .*?  +(\S.*)$", ARCHITECTURE.read_text(encoding="utf-8"), re.MULTILINE)
    rooms = {name: text.rsplit("  ", 1)[-1].strip() for name, text in rows}
    return {name: set() if text == "nothing of ours" else set(text.split(", ")) for name, text in rooms.items()}


def imported(module: str, path: Path, nodes: Iterable[ast.AST]) -> set[str]:
    """The modules of ours that import statements name."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            source = ".".join(filter(None, (base, node.module)))
            named = {f"{source}.{alias.name}" for alias in node.names}
            names |= {name if name in MODULES else source for name in named}
    return names & MODULES.keys() - {"pypto_build", module}


def at_load(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes that are executed when a module is loaded: no function bodies, no code for type checkers only."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            pending += ast.iter_child_nodes(node)


def test_the_table_is_of_all_parts() -> None:
    parts = {name.split(".")[1] for name in MODULES if "." in name}
    assert allowed().keys() == parts


def test_imports_go_one_way() -> None:
    table, wrong = allowed(), []
    for module, path in MODULES.items():
        part = module.split(".")[1] if "." in module else ""
        for name in imported(module, path, ast.walk(syntax(path))):
            _, other, *inner = name.split(".")
            if part and other != part and not {other, ".".join([other, *inner[:1]])} & table[part]:
                wrong.append(f"{module}: {name}")
    assert wrong == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {module: imported(module, path, at_load(syntax(path))) for module, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


@every("room", sorted(allowed()))
def test_no_circle_inside_a_room(room: str) -> None:
    """Imports for type checkers alone and those inside functions count: what two modules need of each other belongs
    below both, or in a protocol."""
    own = {name for name in MODULES if name.split(".")[1:2] == [room]}
    graph = {module: imported(module, MODULES[module], ast.walk(syntax(MODULES[module]))) & own for module in own}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


def test_only_rules_import_scons() -> None:
    users = {
        path.relative_to(PACKAGE).parts[0]
        for path in naming("SCons")
        if any(name.startswith("SCons") for name in imports_of(path))
    }
    assert users == {"rules"}


def test_what_is_done_at_the_end_has_an_owner() -> None:
    """A fork of the resident process ends without Python's end: what is done then is done by `Invocation.finish`."""
    paths = naming("atexit")
    users = {name for name, path in MODULES.items() if path in paths and "atexit" in imports_of(path)}
    assert users == {"pypto_build.rules.handing", "pypto_build.rules.machinery.invocation", "pypto_build.terminal"}


def naming(word: str) -> list[Path]:
    """The modules whose text has a word: to parse all of them takes seconds."""
    return [path for path in PACKAGE.rglob("*.py") if word in path.read_text(encoding="utf-8")]


def imports_of(path: Path) -> set[str]:
    """The names of modules that import statements of a file begin with."""
    return {alias.name for node in ast.walk(syntax(path)) if isinstance(node, ast.Import) for alias in node.names} | {
        node.module or "" for node in ast.walk(syntax(path)) if isinstance(node, ast.ImportFrom)
    }


@pytest.mark.parametrize(
    "module, heavy",
    [
        ("pypto_build.rules", {"numpy", "torch", "tree_sitter", "rich", "pybind11"}),
        ("pypto_build.cli", {"numpy", "torch", "tree_sitter", "rich", "pybind11", "SCons"}),
        ("pypto_build.replay", {"torch", "tree_sitter", "rich", "pybind11", "SCons"}),
    ],
)
def test_what_is_loaded_stays_light(module: str, heavy: set[str]) -> None:
    code = f"import sys, {module}; print(' '.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    assert heavy & set(run.stdout.split()) == set()
