"""How waits compare a signal with a number: by number, as the runtime and simpler's interface count them."""

from __future__ import annotations

#: As they are written, and as they are called.
COMPARISONS = ("==", "!=", ">", ">=", "<", "<=")
COMPARISON_NAMES = ("eq", "ne", "gt", "ge", "lt", "le")


def holds(value: int, expected: int, comparison: int) -> bool:
    """Whether a signal of ``value`` satisfies a wait."""
    return (
        value == expected,
        value != expected,
        value > expected,
        value >= expected,
        value < expected,
        value <= expected,
    )[comparison]
