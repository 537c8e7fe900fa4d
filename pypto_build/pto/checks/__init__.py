"""Checks of a .pto module, as the assembler and the hardware make them; `check_module` runs them all.

A check is a generator of problems. Its subject is one operation with its operands, one resolved function, or all
functions of the module. The editor, which checks again at every key, relies on what checks of operations read
(`live.values.summary`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ..errors import PtoError
from ..model import Module, Operation, case_of
from ..resolve import Problem, Resolved, resolve
from . import operands, ranks, shapes
from .carried import check_carried
from .device import check_device
from .elements import check_elements
from .memory import CAPACITY, check_addresses, check_buffers, check_memory, check_scratch
from .pipes import check_pipes
from .rules import Messages, messages
from .stale import check_popped, check_stale
from .structure import check_ending, check_structure

__all__ = ["CAPACITY", "check_function", "check_module", "check_operation", "check_pipes", "module_arch"]

_OPERATION_CHECKS: tuple[Callable[[Resolved, Operation, str], Messages], ...] = (
    partial(messages, functions=shapes.RULES),
    check_elements,
    partial(messages, functions=operands.RULES),
    check_scratch,
    check_memory,
    partial(messages, functions=ranks.RULES),
)
_FUNCTION_CHECKS = (check_ending, check_addresses, check_buffers, check_stale, check_popped, check_carried)


def module_arch(module: Module, platform: str = "") -> str:
    """Return `a2a3` or `a5`, from `platform`, else from the module's `pto.target_arch`; empty without both."""
    arch = platform.removesuffix("sim") or case_of(module.attrs.get("pto.target_arch"))
    return "a2a3" if arch in ("a3", "a2") else arch


def check_operation(resolved: Resolved, op: Operation, module: Module, arch: str) -> Iterator[Problem]:
    """Yield the problems of one operation in a function whose names and types agree."""
    problems = list(check_structure(resolved, op, module))
    for check in _OPERATION_CHECKS:
        problems += [Problem(op, message, resolved.function) for message in check(resolved, op, arch)]
    if not problems:  # problems of the operation itself say more
        problems = [Problem(op, message, resolved.function) for message in check_device(resolved, op, arch)]
    yield from problems


def check_function(resolved: Resolved) -> Iterator[Problem]:
    """Yield the problems of a whole function whose names and types agree."""
    for check in _FUNCTION_CHECKS:
        yield from check(resolved)


def check_module(module: Module, platform: str = "") -> list[PtoError]:
    """Return all errors of a module, in text order. `platform` decides capacities (default: the module's own)."""
    problems: list[Problem] = []
    arch = module_arch(module, platform)
    resolved = [resolve(f, module) for f in module.functions() if f.body is not None]
    for function in resolved:
        problems += function.problems
        if not function.problems:  # the other checks rely on names and types that agree
            for op in function.function.walk():
                problems += check_operation(function, op, module, arch)
            problems += check_function(function)
    if not problems:
        problems += check_pipes(resolved, arch)
    errors = []
    for problem in problems:
        at = problem.op if problem.op is not None else problem.function
        errors.append((at.token, module.error(at, problem.message)))
    return [error for _, error in sorted(errors, key=lambda pair: pair[0])]
