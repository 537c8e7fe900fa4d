"""How waits compare a signal with a number: by number, as the runtime and simpler's interface count them."""

from __future__ import annotations

import operator

#: As they are written, and as they are called.
COMPARISONS = ("==", "!=", ">", ">=", "<", "<=")
COMPARISON_NAMES = ("eq", "ne", "gt", "ge", "lt", "le")


def holds(value: int, expected: int, comparison: int) -> bool:
    """Whether a signal of ``value`` satisfies a wait."""
    return bool(getattr(operator, COMPARISON_NAMES[comparison])(value, expected))
