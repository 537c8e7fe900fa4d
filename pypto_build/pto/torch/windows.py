"""Windows of global memory that are only loaded to and stored from variables: plain views of a tensor."""

from __future__ import annotations

from collections import defaultdict

from ..model import Operation
from ..resolve import Resolved, Value
from .effects import plain_sizes
from .promote import Promotion


def plain_windows(resolved: Resolved, promotion: Promotion) -> set[int]:
    """The ids of windows that are plain views, and of tensor views of which only such windows are taken."""
    uses: dict[int, list[tuple[Operation, str]]] = defaultdict(list)
    values: dict[int, Value] = {}
    for op in resolved.function.walk():
        for role in op.operands:
            for value in resolved.values(op, role):
                uses[id(value)].append((op, role))
        for value in resolved.results(op):
            values[id(value)] = value
    plain = {
        number
        for number, value in values.items()
        if plain_sizes(resolved, value) is not None
        and uses[number]
        and all(_moves_variable(resolved, promotion, op, role) for op, role in uses[number])
    }
    return plain | {
        number
        for number, value in values.items()
        if value.op is not None
        and value.op.name == "pto.make_tensor_view"
        and all(id(result) in plain for op, _ in uses[number] for result in resolved.results(op) or (None,))
    }


def _moves_variable(resolved: Resolved, promotion: Promotion, op: Operation, role: str) -> bool:
    if op.name == "pto.tload" and role == "src":
        tile = resolved.value(op, "dst")
        return tile is not None and tile in promotion
    return op.name == "pto.tstore" and role == "dst" and (id(op), "src") in promotion.sources


def joined(terms: list[tuple[str, str]]) -> str:
    """The sum of products, constants added up: `4096 + i * 64`."""
    constant, others = 0, []
    for a, b in terms:
        if a.lstrip("-").isdigit() and b.lstrip("-").isdigit():
            constant += int(a) * int(b)
        elif "0" not in (a, b):
            others.append(b if a == "1" else a if b == "1" else f"{a} * {b}")
    return " + ".join([*others, *([str(constant)] if constant or not others else [])])
