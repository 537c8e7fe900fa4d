"""Comparisons between a signal and a number in waits, numbered as in the runtime and simpler's interface."""

from __future__ import annotations

import operator

#: As they are written, and as they are called.
COMPARISONS = ("==", "!=", ">", ">=", "<", "<=")
COMPARISON_NAMES = ("eq", "ne", "gt", "ge", "lt", "le")


def holds(value: int, expected: int, comparison: int) -> bool:
    """Return whether a signal of ``value`` satisfies a wait for ``expected``."""
    return bool(getattr(operator, COMPARISON_NAMES[comparison])(value, expected))
