"""The .pto language: parse, print, check, assemble to C++, translate to PyTorch.

The names below are imported when they are first used: splicing, which is in every edit of a module, needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto_build.lazy import attributes

if TYPE_CHECKING:
    from pypto_build.facts.positions import SourcePosition

    from .errors import PtoError
    from .model import Argument, Function, Location, Module, Operation, Region
    from .ops import TABLE
    from .parser import parse, parse_file
    from .printer import print_module, print_operation

__all__ = [
    "TABLE",
    "Argument",
    "Function",
    "Location",
    "Module",
    "Operation",
    "PtoError",
    "Region",
    "SourcePosition",
    "parse",
    "parse_file",
    "print_module",
    "print_operation",
]

_MODULES = {
    "errors": ("SourcePosition", "PtoError"),
    "model": ("Argument", "Function", "Location", "Module", "Operation", "Region"),
    "ops": ("TABLE",),
    "parser": ("parse", "parse_file"),
    "printer": ("print_module", "print_operation"),
}

__getattr__ = attributes(__name__, _MODULES)
