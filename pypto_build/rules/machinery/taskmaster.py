"""Hooks into SCons's taskmaster: at its start, after all scripts have been read, and at dependency cycles."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from SCons.Errors import UserError
from SCons.Script import Exit
from SCons.Taskmaster import Taskmaster

from pypto_build import terminal

_START, _CLEANUP = Taskmaster.__init__, Taskmaster.cleanup
# Nodes that only keep an order; a test's is named by the test.
_HIDDEN, _TEST = re.compile(r"inputs \d+$"), re.compile(r".*/\.test\.(.+)$")


def set_hooks(start: Callable[[list[Any]], None]) -> None:
    """Call ``start`` with the targets when all scripts have been read.

    Report a dependency cycle in one line, with status 2.
    """

    def begin(taskmaster: Taskmaster, targets: list[Any], *words: Any, **more: Any) -> None:
        start(targets)
        _START(taskmaster, targets, *words, **more)

    Taskmaster.__init__, Taskmaster.cleanup = begin, _cleanup


def _cleanup(taskmaster: Taskmaster) -> None:
    try:
        _CLEANUP(taskmaster)
    except UserError as error:
        cycle = next((line.strip() for line in str(error).splitlines() if " -> " in line), "")
        if not cycle:
            raise
        names = [_TEST.sub(r"\1", name) for name in cycle.split(" -> ")[:0:-1] if not _HIDDEN.match(name)]
        terminal.complain(f"scons: *** {names[0]} depends on itself: {' needs '.join([*names, names[0]])}")
        Exit(2)
