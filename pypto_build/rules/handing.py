"""Hands a command of ``scons`` to the resident process when a script calls our tool.

There SCons reads all scripts again. So the scripts may only have prepared that call, as `only_prepares` decides;
otherwise SCons continues here.
"""

from __future__ import annotations

import ast
import atexit
import os
import re
import sys
from collections.abc import Sequence
from types import FrameType

import SCons
from SCons.Script.SConscript import call_stack

from pypto_build.client.protocol import SconsStart, ask
from pypto_build.client.socket_address import address, describe_situation, directory, may_use_server

# Flags that mean the same to a process that goes on, whatever it does.
_FLAGS = re.compile(r"-[Qks]+|-j\d+")
_ASSIGNMENT = re.compile(r"[A-Z][A-Z0-9_]*=")
_SUBJECTS = ("JIT=", "SCENE=", "PROGRAM=")
# Commands that run for long, report on their own process, or use the terminal alone.
_ALONE_OPTIONS = ("WATCH=", "PROFILE=")
_ALONE = frozenset({"debug", "fetch", "gc", "help", "step", "test"})
_OURS = frozenset({"SCons", "pypto_build"})
_TOOL = "pypto"  # how SCons knows our tool by its file in site_tools
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Modules of these directories do nothing when they are loaded that anybody sees, but for those that are jokes.
_LIBRARIES = tuple(os.path.dirname(path) + os.sep for path in (os.__file__, _PACKAGE + "/", SCons.__file__))
_JOKES = frozenset({"antigravity", "this"})


def hand_over() -> None:
    """End with the command's status if the resident process has run it; otherwise return, and this process runs it.

    In that case a resident process is started at the end, for the next command.
    """
    words = sys.argv[1:]
    if not is_plain(words) or os.environ.get("SCONSFLAGS") or not may_use_server():
        return
    how = _how_scons_is_here()
    socket_dir = directory() if how else None
    if how is None or socket_dir is None:
        return
    situation = describe_situation()
    path = address(socket_dir, situation)
    sys.stdout.flush()
    sys.stderr.flush()
    status = ask(path, situation, words, how)
    if status is not None:
        os._exit(status & 0xFF)
    atexit.register(_start_server, path, os.getpid())


def is_plain(words: Sequence[str]) -> bool:
    """Return True if a command line of SCons asks for one target that ends by itself, on programs that are named."""
    options = [word for word in words if _ASSIGNMENT.match(word)]
    rest = [word for word in words if not (_ASSIGNMENT.match(word) or _FLAGS.fullmatch(word))]
    alone = any(option.startswith(_ALONE_OPTIONS) for option in options)
    of_a_program = any(option.startswith(_SUBJECTS) for option in options)
    return len(rest) == 1 and rest[0].isidentifier() and rest[0] not in _ALONE and of_a_program and not alone


def _start_server(path: str, process: int) -> None:
    if os.getpid() == process:  # no fork of it
        from pypto_build.client.start import start_server

        start_server(path)


def _how_scons_is_here() -> SconsStart | None:
    """Return the start parameters of SCons in this process; None if a second start would show output or effects
    twice.
    """
    if len(call_stack) != 1:
        return None
    script = str(call_stack[0].sconscript.abspath) if hasattr(call_stack[0].sconscript, "abspath") else ""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != script:
        frame = frame.f_back
    if frame is None or frame.f_code.co_name != "<module>" or frame.f_back is None:
        return None
    before = frame.f_back.f_locals.get("old_sys_path")  # SCons looks for modules beside each script while it reads it
    if not isinstance(before, list):
        return None
    site_dirs = [entry for entry in before if os.path.basename(entry) == "site_scons"]
    inits = [file for entry in site_dirs if os.path.exists(file := os.path.join(entry, "site_init.py"))]
    tool = getattr(sys.modules.get(_TOOL), "__file__", None)
    others = [*inits, *([tool] if tool else [])]
    try:
        if any(map(_has_a_library, {os.path.dirname(script), *site_dirs})):
            return None
        harmless = only_prepares(_read(script), frame.f_lineno) and all(only_prepares(_read(file)) for file in others)
    except (OSError, SyntaxError, ValueError):
        return None
    if not harmless:
        return None
    path = [entry for entry in before if entry not in site_dirs]
    return sys.argv[0], sys.orig_argv, path, [script, *inits]


def _has_a_library(directory: str) -> bool:
    """Return True if a module in the directory has the name of a standard module, which the resident process has
    already loaded.
    """
    names = {name.removesuffix(".py") for name in os.listdir(directory) if name.endswith(".py")}
    return not names.isdisjoint(sys.stdlib_module_names)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def only_prepares(text: bytes, call: int = 0) -> bool:
    """Return True if a script has no outside effect before the statement at line ``call``, which must call our tool.

    Raises `SyntaxError` and `ValueError`.
    """
    for statement in ast.parse(text).body:
        if call and statement.lineno <= call <= (statement.end_lineno or 0):
            return _calls_the_tool(statement)
        if not _has_no_effect(statement):
            return False
    return not call


def _calls_the_tool(statement: ast.stmt) -> bool:
    """Return True for ``env = Environment(tools=[pypto])``; any other arguments must be constants."""
    call = statement.value if isinstance(statement, (ast.Assign, ast.Expr)) else None
    if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
        return False
    tools = [keyword.value for keyword in call.keywords if keyword.arg == "tools"]
    alone = len(tools) == 1 and isinstance(tools[0], (ast.List, ast.Tuple)) and len(tools[0].elts) == 1
    return call.func.id == "Environment" and alone and all(_is_constant(keyword.value) for keyword in call.keywords)


def _has_no_effect(statement: ast.stmt) -> bool:
    match statement:
        case ast.Import(names=names):
            return all(_is_library(alias.name) for alias in names)
        case ast.ImportFrom(module=str(module), level=0):
            return _is_library(module)
        case ast.Assign(targets=targets, value=value):
            return all(isinstance(target, ast.Name) for target in targets) and _is_constant(value)
        case ast.Expr(value=ast.Call(func=function, args=arguments, keywords=[])):
            return ast.unparse(function) in ("sys.path.insert", "progress_display.set_mode") and all(
                _is_constant(argument) or ast.unparse(argument) == "Dir('#').abspath" for argument in arguments
            )
        case ast.Expr(value=value):
            return _is_constant(value)
    return False


def _is_library(module: str) -> bool:
    """Return True if an imported module belongs to Python, SCons or this package, and is not another one of that
    name.
    """
    top = module.partition(".")[0]
    if top in _JOKES or not (top in _OURS or top in sys.stdlib_module_names):
        return False
    file = getattr(sys.modules.get(top), "__file__", None)
    return file is None or file.startswith(_LIBRARIES)


def _is_constant(value: ast.expr) -> bool:
    parts = (ast.Constant, ast.Name, ast.Attribute, ast.List, ast.Tuple, ast.Dict, ast.expr_context)
    return all(isinstance(part, parts) for part in ast.walk(value))
