"""Sets of bytes as disjoint intervals in order, each from its first byte to one past its last."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pypto_build.diagnose.why.trace import Array


def _none() -> Array:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Intervals:
    """Addresses: `low` and `high` of each interval, in order."""

    low: Array = field(default_factory=_none)
    high: Array = field(default_factory=_none)

    @staticmethod
    def of(low: Array, high: Array) -> Intervals:
        """Merge intervals in any order, which may overlap or touch."""
        if len(low) < 2:
            return Intervals(low, high)
        order = np.argsort(low, kind="stable")
        low, reach = low[order], np.maximum.accumulate(high[order])
        first = np.concatenate(([True], low[1:] > reach[:-1]))
        last = np.concatenate((np.flatnonzero(first)[1:] - 1, [len(low) - 1]))
        return Intervals(low[first], reach[last])

    def __len__(self) -> int:
        return len(self.low)

    @property
    def hull(self) -> tuple[int, int]:
        """The first byte, and one past the last; of none (0, 0)."""
        return (int(self.low[0]), int(self.high[-1])) if len(self) else (0, 0)

    @property
    def bytes(self) -> int:
        """Return the number of bytes."""
        return int((self.high - self.low).sum())

    def touched(self, low: Array, high: Array) -> Array:
        """Return a mask of the other intervals that share a byte with these."""
        if not len(self):
            return np.zeros(len(low), bool)
        at = np.searchsorted(self.high, low, side="right")
        return np.asarray((at < len(self)) & (self.low[np.minimum(at, len(self) - 1)] < high))

    def with_(self, other: Intervals) -> Intervals:
        """All bytes of both."""
        if not len(other) or not len(self):
            return self if len(self) else other
        return Intervals.of(np.concatenate((self.low, other.low)), np.concatenate((self.high, other.high)))

    def without(self, other: Intervals) -> Intervals:
        """The bytes that are not the other's."""
        if not len(other) or not self.touched(other.low, other.high).any():
            return self
        cuts = np.unique(np.concatenate((self.low, self.high, other.low, other.high)))
        low, high = cuts[:-1], cuts[1:]
        kept = self.touched(low, high) & ~other.touched(low, high)
        return Intervals.of(low[kept], high[kept])

    def within(self, low: int, high: int) -> Intervals:
        """The bytes that lie from `low` to before `high`."""
        first = int(np.searchsorted(self.high, low, side="right"))
        end = int(np.searchsorted(self.low, high, side="left"))
        return Intervals(np.maximum(self.low[first:end], low), np.minimum(self.high[first:end], high))

    def holds(self, addresses: Array) -> Array:
        """Return a mask of the addresses that lie in the intervals."""
        return self.touched(addresses, addresses + 1)
