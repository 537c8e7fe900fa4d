"""Imports go one way, and nothing heavy is loaded where it would be felt in every edit."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "pypto_build"

ALLOWED: dict[str, set[str]] = {
    "artifact": set(),
    "pto": set(),
    "compiler": {"artifact", "pto", "toolchain"},
    "toolchain": {"artifact"},
    "runtime": set(),
    "replay": {"artifact", "pto", "runtime"},
    "diagnose": {"artifact", "pto", "compiler", "toolchain", "replay"},
    "interop": {"artifact", "replay", "toolchain"},
    "rules": {"artifact", "toolchain"},
}

# The records and recipes that rules read besides: typed data, no work.
RULES_ALSO = {"pypto_build.replay.verdict", "pypto_build.runtime.build"}


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    package = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            names |= {f"{module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.startswith("pypto_build.") and name != "pypto_build.__version__"}


@pytest.mark.parametrize("package", sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()))
def test_imports_go_one_way(package: str) -> None:
    wrong = []
    for path in (PACKAGE / package).rglob("*.py"):
        for name in imported(path):
            other = name.split(".")[1]
            is_record = package == "rules" and any(
                name.startswith(record) or record.startswith(name) for record in RULES_ALSO
            )
            if other != package and other not in ALLOWED[package] and not is_record:
                wrong.append(f"{path.relative_to(PACKAGE)}: {name}")
    assert wrong == []


def test_only_rules_import_scons() -> None:
    users = {
        path.relative_to(PACKAGE).parts[0]
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("SCons"))
        or (isinstance(node, ast.Import) and any(alias.name.startswith("SCons") for alias in node.names))
    }
    assert users == {"rules"}


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
