"""The head of a generated file: those helpers its functions use, and what these use themselves."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FILES = ("memory", "arithmetic", "special", "pipes", "ranks", "launch", "program")
_DIRECTORY = Path(__file__).parent / "helpers"


@dataclass(frozen=True)
class _Piece:
    """One definition of a helper file: the names it makes and uses, and its text."""

    names: tuple[str, ...]
    uses: frozenset[str]
    text: str
    is_import: bool


@cache
def _pieces() -> tuple[_Piece, ...]:
    pieces: list[_Piece] = []
    for name in _FILES:
        source = (_DIRECTORY / f"{name}.py").read_text(encoding="utf-8")
        lines = source.splitlines()
        for node in ast.parse(source).body:
            defines = _names_defined(node)
            if not defines:
                continue
            decorators = getattr(node, "decorator_list", [])
            first = min([node.lineno, *(d.lineno for d in decorators)]) - 1
            while first and lines[first - 1].startswith("# "):
                first -= 1
            assert node.end_lineno is not None
            text = "\n".join(lines[first : node.end_lineno])
            is_import = isinstance(node, (ast.Import, ast.ImportFrom))
            uses = frozenset(_identifiers(node)) - set(defines)
            pieces.append(_Piece(defines, uses, text, is_import))
    return tuple(pieces)


def _names_defined(node: ast.stmt) -> tuple[str, ...]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return (node.name,)
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return (node.target.id,)
    if isinstance(node, ast.Assign):
        return tuple(t.id for t in node.targets if isinstance(t, ast.Name))
    if isinstance(node, ast.ImportFrom) and (node.level or node.module == "__future__"):
        return ()
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return tuple((a.asname or a.name).partition(".")[0] for a in node.names)
    return ()


def _identifiers(node: ast.AST) -> Iterable[str]:
    return (n.id for n in ast.walk(node) if isinstance(n, ast.Name))


@cache
def helper_names() -> frozenset[str]:
    """Names that generated functions must not take for their own."""
    return frozenset(name for piece in _pieces() for name in piece.names) | {"torch", "run", "annotations"}


def taken_names() -> frozenset[str]:
    """Return the names with another meaning in a file: helpers, Python's own, and definitions of callers."""
    return helper_names() | frozenset(dir(builtins)) | {"_probe"}


def used_names(text: str) -> frozenset[str]:
    """All of `taken_names` that a file uses."""
    return taken_names() & {*_identifiers(ast.parse(text)), "torch"}


def preamble(body: str, functions: Collection[str] = ()) -> str:
    """Return the head of a file whose text is `body`, which defines `functions` itself."""
    needed = {*_identifiers(ast.parse(body))} - {*functions} | {"torch"}
    chosen: dict[int, _Piece] = {}
    grew = True
    while grew:
        grew = False
        for number, piece in enumerate(_pieces()):
            if number not in chosen and needed & set(piece.names):
                chosen[number] = piece
                needed |= piece.uses
                grew = True
    ordered = [chosen[number] for number in sorted(chosen)]
    imports = _merged([piece.text for piece in ordered if piece.is_import], needed)
    text = "from __future__ import annotations\n\n" + "\n".join(imports) + "\n"
    for piece in ordered:
        if not piece.is_import:
            gap = (
                "\n\n\n"
                if piece.text.lstrip("# ").startswith(("def ", "class ", "@")) or "\ndef " in piece.text
                else "\n\n"
            )
            text += gap.removeprefix("\n") + piece.text + "\n"
    return text


def _merged(imports: list[str], needed: set[str]) -> list[str]:
    """Return the imports, the standard library before torch; of `from x import a, b` only the used names."""
    plain: set[str] = set()
    members: dict[str, set[str]] = {}
    for text in imports:
        node = ast.parse(text).body[0]
        if isinstance(node, ast.ImportFrom):
            members.setdefault(str(node.module), set()).update(a.name for a in node.names if a.name in needed)
        elif isinstance(node, ast.Import):
            plain |= {a.name for a in node.names if a.name in needed}
    lines = [f"import {name}" for name in sorted(plain - {"torch"})]
    lines += [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(members.items()) if names]
    return [*lines, "", "import torch"] if lines else ["import torch"]
