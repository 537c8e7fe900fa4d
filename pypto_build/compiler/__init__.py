"""A program in Python -> an artifact: .pto modules, kernel wrappers, orchestration, manifest, golden.

Programs are written with `pypto_build.compiler.language`; `python -m pypto_build.compiler` compiles one.
"""

from __future__ import annotations

from .driver import Compiled, compile_entry, compile_file
from .emit_orchestration import OrchestrationResult, generate_orchestration
from .errors import CompileError, Place
from .frontend import build_program
from .generate import Options, generate
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
    "Place",
    "Program",
    "build_program",
    "compile_entry",
    "compile_file",
    "generate",
    "generate_orchestration",
    "infer_function_core_type",
    "run_passes",
]
