"""A program in Python -> an artifact: .pto modules, kernel wrappers, orchestration, manifest, golden.

Programs are written with `pypto_build.compiler.language`; `python -m pypto_build.compiler` compiles one. The names
below are imported when they are first used, so that small tools of this package start without all of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .driver import Compiled, compile_entry, compile_file
    from .emit_artifact import Options, generate
    from .emit_orchestration import generate_orchestration
    from .errors import CompileError, SourcePosition
    from .frontend import build_program
    from .ir import Program
    from .memory import infer_function_core_type
    from .orchestration_text import OrchestrationResult
    from .pipeline import PASSES, run_passes
    from .vintages import VINTAGES, ApiVintage

__all__ = [
    "PASSES",
    "VINTAGES",
    "ApiVintage",
    "CompileError",
    "Compiled",
    "Options",
    "OrchestrationResult",
    "Program",
    "SourcePosition",
    "build_program",
    "compile_entry",
    "compile_file",
    "generate",
    "generate_orchestration",
    "infer_function_core_type",
    "run_passes",
]

_MODULES = {
    "driver": ("Compiled", "compile_entry", "compile_file"),
    "emit_artifact": ("Options", "generate"),
    "emit_orchestration": ("generate_orchestration",),
    "errors": ("CompileError", "SourcePosition"),
    "frontend": ("build_program",),
    "ir": ("Program",),
    "memory": ("infer_function_core_type",),
    "orchestration_text": ("OrchestrationResult",),
    "pipeline": ("PASSES", "run_passes"),
    "vintages": ("VINTAGES", "ApiVintage"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    return value
