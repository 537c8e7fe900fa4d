"""A program in Python -> an artifact: .pto modules, kernel wrappers, orchestration, manifest, golden.

Programs are written with `pypto_build.compiler.language`; `python -m pypto_build.compiler` compiles one. The names
below are imported when they are first used, so that small tools of this package start without all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto_build.lazy import attributes

if TYPE_CHECKING:
    from pypto_build.facts.positions import SourcePosition

    from .driver import Compiled, compile_entry, compile_file
    from .emit_artifact import Options, generate
    from .emit_orchestration import OrchestrationResult, generate_orchestration
    from .errors import CompileError
    from .frontend import build_program
    from .ir import Program
    from .memory import infer_function_core_type
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

__getattr__ = attributes(__name__, _MODULES)
