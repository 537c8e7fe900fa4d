"""Statistics of an array of numbers: range, moments, special values, and a histogram."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pypto_build.replay.values import Array

_BARS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Statistics:
    """Statistics of an array: range and moments of its finite elements, and counts over all elements.

    Range and moments are NaN if there is no finite element. `distinct` is None if there are many distinct values.
    """

    numel: int
    minimum: float
    maximum: float
    mean: float
    deviation: float
    zeros: int
    nans: int
    infinities: int
    distinct: int | None

    @property
    def text(self) -> str:
        """The statistics in one line."""
        if self.numel == 0:
            return "no elements"
        parts = [
            f"min {self.minimum:.6g}",
            f"max {self.maximum:.6g}",
            f"mean {self.mean:.6g}",
            f"std {self.deviation:.4g}",
        ]
        parts += [f"{count} {word}" for count, word in ((self.nans, "NaN"), (self.infinities, "inf")) if count]
        parts += [f"{self.zeros / self.numel:.0%} zero"] if self.zeros else []
        parts += ["all the same" if self.distinct == 1 else f"{self.distinct} distinct"] if self.distinct else []
        return ", ".join(parts)


#: The largest number of distinct values that is reported.
_FEW = 16


def statistics(values: Array) -> Statistics:
    """Return the statistics of an array of any shape and type."""
    flat, numbers = np.asarray(values).reshape(-1), _numbers(values)
    finite = np.isfinite(numbers)
    good = numbers[finite]
    distinct = len(np.unique(good[:4096]))
    if distinct <= _FEW:
        distinct = len(np.unique(good))
    return Statistics(
        numel=flat.size,
        minimum=float(good.min()) if good.size else float("nan"),
        maximum=float(good.max()) if good.size else float("nan"),
        mean=float(good.mean()) if good.size else float("nan"),
        deviation=float(good.std()) if good.size else float("nan"),
        zeros=int(np.count_nonzero(numbers == 0)),
        nans=int(np.count_nonzero(np.isnan(numbers))),
        infinities=int(np.count_nonzero(np.isinf(numbers))),
        distinct=distinct if 0 < distinct <= _FEW else None,
    )


def _numbers(values: Array) -> Array:
    with np.errstate(invalid="ignore"):  # unwritten bytes are marked by signalling NaN
        return np.asarray(values).reshape(-1).astype(np.float64, copy=False)


@dataclass(frozen=True)
class Histogram:
    """Counts of finite elements in equally wide bins from `low` to `high`."""

    low: float
    high: float
    counts: tuple[int, ...]

    @property
    def line(self) -> str:
        """The bins as a row of block characters. The largest bin has a full block, and no used bin is blank."""
        top = max(self.counts, default=0)
        blocks = (0 if not count else max(1, round(count / top * (len(_BARS) - 1))) for count in self.counts)
        return f"{self.low:.4g} |{''.join(_BARS[block] for block in blocks)}| {self.high:.4g}"


def histogram(values: Array, bins: int = 40) -> Histogram | None:
    """Return the histogram of an array, or None if it has no finite element."""
    numbers = _numbers(values)
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return None
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        return Histogram(low, high, (finite.size,))
    counts, _ = np.histogram(finite, bins=bins, range=(low, high))
    return Histogram(low, high, tuple(int(count) for count in counts))
