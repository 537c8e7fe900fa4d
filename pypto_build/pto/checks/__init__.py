"""Checks of a .pto module, as the assembler and the hardware make them; `check_module` runs them all.

Each check is a generator of problems over one resolved function; those that look at several functions take the module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..attributes import case_of
from ..errors import PtoError
from ..model import Module
from ..resolve import Problem, Resolved, resolve
from .elements import check_elements
from .memory import CAPACITY, check_memory
from .operands import check_operands
from .pipes import check_pipes
from .scratch import check_scratch
from .shapes import check_shapes
from .stale import check_stale
from .structure import check_structure

__all__ = ["CAPACITY", "check_module", "module_arch"]

_FUNCTION_CHECKS: tuple[Callable[[Resolved, Module, str], Iterator[Problem]], ...] = (
    check_structure,
    check_shapes,
    check_elements,
    check_operands,
    check_scratch,
    check_memory,
    check_stale,
)


def module_arch(module: Module, platform: str = "") -> str:
    """`a2a3` or `a5`: of `platform`, else of the module's `pto.target_arch`; empty when neither says."""
    arch = platform.removesuffix("sim") or case_of(module.attrs.get("pto.target_arch"))
    return "a2a3" if arch in ("a3", "a2") else arch


def check_module(module: Module, platform: str = "") -> list[PtoError]:
    """Everything wrong with a module, in text order. `platform` decides capacities (default: the module's own)."""
    problems: list[Problem] = []
    arch = module_arch(module, platform)
    resolved = [resolve(f, module) for f in module.functions() if f.body is not None]
    for function in resolved:
        problems += function.problems
        if not function.problems:  # the other checks rely on names and types that agree
            for check in _FUNCTION_CHECKS:
                problems += check(function, module, arch)
    if not problems:
        problems += check_pipes(resolved, module, arch)
    found = []
    for problem in problems:
        token = problem.op.token if problem.op is not None else problem.function.token
        name = problem.op.name if problem.op is not None else f"func.func @{problem.function.name}"
        found.append((token, PtoError(module.source.position(token), problem.message, name)))
    return [error for _, error in sorted(found, key=lambda pair: pair[0])]
