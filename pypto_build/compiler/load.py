"""Loads a program's file and finds the source of its functions. A file that fails to execute is a CompileError at
its line.
"""

from __future__ import annotations

import ast
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from pypto_build.artifact.beside import modules_beside
from pypto_build.facts.positions import SourcePosition

from .errors import CompileError
from .language import JitFunction


def load_module(path: str, text: str = "") -> ModuleType:
    """Return the program's executed module. `path` is used for source positions, `text` replaces the file's content."""
    position = SourcePosition(path)
    try:
        text = text or Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise CompileError(position, f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise CompileError(position, "is not a Python file: it is not UTF-8 text") from None
    _definitions.cache_clear()  # the file may have changed since it was last loaded
    _texts[path] = text
    module = ModuleType(Path(path).stem)
    module.__file__ = path
    try:
        with modules_beside(Path(path)):
            exec(compile(text, path, "exec"), module.__dict__)
    except SyntaxError as error:
        raise CompileError(
            SourcePosition(error.filename or path, error.lineno or 0), f"syntax error: {error.msg}"
        ) from None
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        line = (frames[-1].lineno or 0) if frames else 0
        raise CompileError(SourcePosition(path, line), f"{type(error).__name__}: {error}") from None
    return module


def entries_of(module: ModuleType) -> list[JitFunction]:
    """Return the orchestrations of a program, in order; for a host program, only that one."""
    position = SourcePosition(str(module.__file__))
    functions = list(dict.fromkeys(v for v in vars(module).values() if isinstance(v, JitFunction)))
    hosts = [function for function in functions if function.kind == "host"]
    if len(hosts) > 1:
        names = ", ".join(host.name for host in hosts)
        raise CompileError(position, f"defines several host programs: {names}", "put each program into its own file")
    entries = hosts or [function for function in functions if function.kind == "orchestration"]
    if not entries:
        raise CompileError(position, "defines no program", "decorate the orchestration function with @pl.jit")
    return entries


_NESTED = ("body", "orelse", "finalbody", "handlers", "cases")  # where a statement has statements
_texts: dict[str, str] = {}  # of modules that were loaded, by path


@cache
def _definitions(file: str) -> dict[tuple[str, int], ast.FunctionDef]:
    tree = ast.parse(_texts.get(file) or Path(file).read_text(encoding="utf-8"), file)
    definitions = {}
    statements: list[ast.AST] = [tree]
    while statements:
        node = statements.pop()
        statements += (inner for name in _NESTED for inner in getattr(node, name, ()))
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            definitions[(node.name, first)] = node
    return definitions


def definition_of(function: Callable[..., Any]) -> tuple[str, ast.FunctionDef]:
    """Return file and syntax tree of a function."""
    code = function.__code__
    try:
        return code.co_filename, _definitions(code.co_filename)[(code.co_name, code.co_firstlineno)]
    except (KeyError, OSError):
        raise CompileError(
            SourcePosition(code.co_filename, code.co_firstlineno), f"the source of {code.co_name} cannot be found"
        ) from None


def namespace_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the names visible in a function from outside: globals, then its closure."""
    names = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        names[name] = cell.cell_contents
    return names
