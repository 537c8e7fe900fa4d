"""The .pto language: parse, print, check, assemble to C++, translate to PyTorch."""

from __future__ import annotations

from .errors import Place, PtoError
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
    "Place",
    "PtoError",
    "Region",
    "parse",
    "parse_file",
    "print_module",
    "print_operation",
]
