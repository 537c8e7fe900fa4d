"""Fit of the rates to measured times: `CALIBRATE=chip_swimlane_records.json` or `CALIBRATE=pmu.csv`.

Compared are the times of a task's blocks, kernel by kernel, and, of a timeline, that of the whole run. One rate after
the other is scaled, as long as that brings prediction and measurement together.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import median

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import read_text, write_bytes
from pypto_build.diagnose.recorded.critical_path import read_timeline
from pypto_build.diagnose.speed.model import Model
from pypto_build.diagnose.speed.rates import Rate, Rates
from pypto_build.diagnose.speed.record import Recording

#: The rates that are fitted: those that no single kernel decides. What is listed together is scaled together.
FREE: tuple[tuple[str, ...], ...] = (
    ("hbm", "hbm.read"),
    ("hbm.aiv", "hbm.aic"),
    ("l2.aiv", "l2.aic"),
    ("load.latency", "store.latency"),
    ("l0a", "l0b"),
    ("vector.head", "bank.head"),
    ("scalar.access",),
    ("issue",),
    ("dispatch.dependency",),
    ("dispatch.pickup",),
    ("dispatch.submit", "dispatch.preamble"),
)
_FACTORS = (0.5, 0.7, 0.85, 0.93, 1.08, 1.18, 1.4, 2.0)
_SWEEPS = 3
#: The part by which an error has to become smaller.
_GAIN = 0.01
_RUN = ""


@dataclass(frozen=True)
class Calibration:
    """The rates that were changed, and the mean errors in percent before and after; `times` are measured and fitted."""

    changed: tuple[Rate, ...]
    before: float
    after: float
    times: Mapping[str, tuple[float, float]]


def calibrate(
    recording: Recording, rates: Rates, measured: Mapping[str, float], source: str, names: Mapping[int, str]
) -> Calibration:
    """Return the rates under which the prediction comes closest to the measured times, which are from `source`."""
    model = Model(recording, rates)
    best = before = _error(_predicted(model, names), measured)
    fitted = rates
    for _ in range(_SWEEPS):
        at_start = best
        for together in FREE:
            for factor in _FACTORS:
                tried = _scaled(fitted, together, factor)
                error = _error(_predicted(Model(recording, tried, l2=model.hits), names), measured)
                if error < best * (1 - _GAIN):
                    best, better = error, tried
                    fitted = better
        if best > at_start * (1 - _GAIN):
            break
    changed = tuple(
        msgspec.structs.replace(row, chip=rates.chip, evidence="F", source=f"fitted to {source}", error=min(0.5, best))
        for name, row in fitted.rows.items()
        if row.value != rates[name]
    )
    result = _predicted(Model(recording, fitted, l2=model.hits), names)
    times = {name: (measured[name], result[name]) for name in measured}
    return Calibration(changed, 100 * (exp(before) - 1), 100 * (exp(best) - 1), times)


def _scaled(rates: Rates, names: Sequence[str], factor: float) -> Rates:
    return rates.with_values(**{name: rates[name] * factor for name in names})


def measured_times(path: Path, recording: Recording, rates: Rates, names: Mapping[int, str]) -> dict[str, float]:
    """Return the median time of a block of each kernel, in microseconds, from a timeline or a table of counters.

    A timeline also has the time of the run, under an empty name. Raises a usage error for a file of other tasks.
    """
    if path.suffix == ".csv":
        rows, whole = _counted(path, rates.clock), {}
    else:
        timeline = read_timeline(path)
        begin, end = timeline.span
        rows, whole = [(row.task, "", row.end - row.start) for row in timeline.rows], {_RUN: end - begin}
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for task, core_type, time in rows:
        calls = recording.tasks.get(recording.ids.get(task, -1))
        if calls:
            times[_title([call.kernel for call in calls], names)][core_type].append(time)
    if not times:
        raise ArtifactError(path, "has times of other tasks", "give a file of the same artifact and inputs")
    return whole | {name: max(map(median, by_type.values())) for name, by_type in times.items()}


def _counted(path: Path, clock: float) -> list[tuple[int, str, float]]:
    """Return task, type of core and microseconds of each row of simpler's `pmu.csv`."""
    try:
        table = csv.DictReader(read_text(path).splitlines())
        return [(int(row["task_id"], 16), row["core_type"], int(row["pmu_total_cycles"]) / clock) for row in table]
    except (OSError, KeyError, ValueError, TypeError) as error:
        reason = f"column {error} is missing" if isinstance(error, KeyError) else str(error)
        raise ArtifactError(path, f"is not a table of counters: {reason}", "run again with PMU=2") from None


def _predicted(model: Model, names: Mapping[int, str]) -> dict[str, float]:
    times: dict[str, list[float]] = defaultdict(list)
    placed, _, _ = model.run
    for one in placed:
        kernels = [call.kernel for call in model.recording.tasks[one.block.task]]
        times[_title(kernels, names)].append(one.end - one.start)
    begin = min(one.start for one in placed)
    return {_RUN: max(one.end for one in placed) - begin} | {name: median(result) for name, result in times.items()}


def _title(kernels: Sequence[int], names: Mapping[int, str]) -> str:
    return "+".join(names.get(kernel, str(kernel)) for kernel in sorted(set(kernels)))


def _error(result: Mapping[str, float], measured: Mapping[str, float]) -> float:
    """Return the mean of the logarithms of the ratios, without their signs."""
    errors = [abs(log(max(result[name], 1e-3) / max(time, 1e-3))) for name, time in measured.items() if name in result]
    return sum(errors) / len(errors)


def as_toml(rates: Sequence[Rate]) -> str:
    """Return rows as RATES= reads them."""
    rows = []
    for rate in rates:
        texts = {name: msgspec.json.encode(getattr(rate, name)).decode() for name in rate.__struct_fields__}
        rows.append("[[rate]]\n" + "".join(f"{name} = {text}\n" for name, text in texts.items()))
    return "\n".join(rows)


def write_rates(path: Path, result: Calibration) -> list[str]:
    """Write the rates that were fitted and return the lines that tell of them."""
    write_bytes(path, as_toml(result.changed).encode())
    lines = [f"calibration: mean error {result.before:.0f} % before, {result.after:.0f} % after; rates in {path}"]
    lines += [f"  {rate.name} = {rate.value:.4g} {rate.unit}" for rate in result.changed]
    for name, (measured, fitted) in result.times.items():
        lines.append(f"  {name or 'the run'}: measured {measured:,.1f} us, fitted {fitted:,.1f} us")
    if result.after > 25:
        lines.append("  the fit explains little: the model misses something that these kernels do")
    return lines
