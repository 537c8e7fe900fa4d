"""Loads that need no copy: nothing can change what was loaded before it was read for the last time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from ..model import Operation, Region
from ..ops import TABLE
from ..resolve import Resolved
from .promote import Promotion

#: Families without writes to global memory and without switches to another core.
_QUIET = frozenset((
    "arith", "arith_compare", "arith_select", "array", "cast", "colexpand", "colreduce", "compare", "concat",
    "constant", "control:for", "control:if", "control:yield", "convert", "core_id", "element:get", "elementwise",
    "fill", "fillpad", "matmul", "move", "none", "pointer", "rowexpand", "rowreduce", "scalar:load", "select",
    "ternary", "tile", "transfer:load", "transpose", "view",
))  # fmt: skip
#: Families whose result may be a view of an operand.
_VIEWS = frozenset(("convert", "fillpad", "move", "transpose", "rowexpand:copy", "colexpand:copy"))


@dataclass
class _Uses:
    """The writers and the readers of a variable."""

    writers: list[Operation] = field(default_factory=list)
    readers: list[Operation] = field(default_factory=list)


def borrowing_loads(resolved: Resolved, promotion: Promotion) -> set[int]:
    """The ids of loads of variables that may be views of global memory."""
    return _Borrowing(resolved, promotion).found()


class _Borrowing:
    def __init__(self, resolved: Resolved, promotion: Promotion) -> None:
        self.resolved, self.promotion = resolved, promotion
        self.position: dict[int, tuple[int, int, Operation | None]] = {}  # op -> its region, number there, op around it
        self.regions: dict[int, Region] = {}
        self.uses: dict[int, _Uses] = defaultdict(_Uses)
        self.zeroed = {id(value) for value in promotion.zeroed}
        assert resolved.function.body is not None
        self._region(resolved.function.body, None)

    def _region(self, region: Region, around: Operation | None) -> None:
        self.regions[id(region)] = region
        for number, op in enumerate(region.ops):
            self.position[id(op)] = id(region), number, around
            for role in op.operands:
                source = self.promotion.sources.get((id(op), role))
                if source is not None:
                    self.uses[id(source)].readers.append(op)
                about = TABLE[op.name].role(role, op.variant)
                value = self.resolved.value(op, role)
                if value is not None and value in self.promotion and about is not None and "w" in about.access:
                    self.uses[id(self.promotion.variables[id(value)])].writers.append(op)
            for inner in op.regions:
                self._region(inner, op)

    def found(self) -> set[int]:
        loads = set()
        for number, uses in self.uses.items():
            load = uses.writers[0] if len(uses.writers) == 1 else None
            if load is None or load.name != "pto.tload" or number in self.zeroed:
                continue
            region, first, _ = self.position[id(load)]
            last = self._last_use(number, region, first)
            if last is not None and all(map(_is_quiet, self.regions[region].ops[first + 1 : last + 1])):
                loads.add(id(load))
        return loads

    def _last_use(self, variable: int, region: int, first: int) -> int | None:
        """Return the number of the last reader of the variable and its views; None unless all are in the region."""
        last = first
        for op in self.uses[variable].readers:
            number = self._number_in(op, region)
            if number is None or number <= first:
                return None
            last = max(last, number)
            if _VIEWS.isdisjoint(TABLE[op.name].keys):
                continue
            target = self.resolved.value(op, "dst")
            if target is None or target not in self.promotion:
                continue  # copied into a memory
            derived = id(self.promotion.variables[id(target)])
            if len(self.uses[derived].writers) != 1 or derived == variable:
                return None
            further = self._last_use(derived, region, first)
            if further is None:
                return None
            last = max(last, further)
        return last

    def _number_in(self, op: Operation, region: int) -> int | None:
        """Return the position, in a region, of an operation or of the operation around it."""
        while True:
            own, number, around = self.position[id(op)]
            if own == region:
                return number
            if around is None:
                return None
            op = around


def _is_quiet(op: Operation) -> bool:
    quiet = not _QUIET.isdisjoint(TABLE[op.name].keys)
    return quiet and all(_is_quiet(inner) for region in op.regions for inner in region.ops)
