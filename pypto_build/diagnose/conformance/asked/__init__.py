"""The kit's questions, with one module for each program."""

from __future__ import annotations

from functools import cache

from ..question import Group
from . import choices, functions, products, rounding, rules, sums


@cache
def groups() -> tuple[Group, ...]:
    """Return all groups of questions. Their inputs are the same on every machine."""
    return (products.group(), sums.group(), rounding.group(), functions.group(), choices.group(), rules.group())
