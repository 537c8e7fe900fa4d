"""The first screen of `scons speed`: the run's time with its range, what bounds it, and a line a kernel."""

from __future__ import annotations

from collections.abc import Mapping

from pypto_build.artifact.instruction_sites import InstructionPosition
from pypto_build.diagnose.console import counted, table
from pypto_build.diagnose.speed.document import PredictionDocument
from pypto_build.diagnose.speed.model import KernelTime, Prediction
from pypto_build.diagnose.speed.rates import EVIDENCE
from pypto_build.diagnose.speed.record import PIPES, SLOT_ACQUIRED, WAIT_FLAG, Recording

_SHOWN_KERNELS = 20


def microseconds(value: float) -> str:
    """`12.3 us`, `1.24 ms`."""
    return f"{value:,.1f} us" if value < 1000 else f"{value / 1000:,.2f} ms"


def span(low: float, high: float, time: float) -> str:
    """Return the range in the unit in which `microseconds` shows the time: `(11.0 to 13.5)`."""
    unit = 1000.0 if time >= 1000 else 1.0
    return f"({low / unit:,.{2 if unit > 1 else 1}f} to {high / unit:,.{2 if unit > 1 else 1}f})"


def headline(prediction: Prediction) -> str:
    """Return the first line: time, range, percent of the speed of light, and what bounds the run."""
    p = prediction
    return (
        f"{p.chip}: {microseconds(p.time_us)} {span(p.low_us, p.high_us, p.time_us)}, {p.percent:.0f} % of the speed of"
        f" light ({microseconds(p.light_us)} by {p.light}); bound by {p.bound}"
    )


def screen(
    prediction: Prediction,
    recording: Recording,
    names: Mapping[int, str],
    positions: Mapping[int, InstructionPosition],
) -> list[str]:
    """Return the lines of the first screen."""
    p = prediction
    share = ", ".join(f"{name} {value:.0%}" for name, value in p.path.items() if value >= 0.005)
    rests = ", ".join(f"{EVIDENCE[letter]} {value:.0%}" for letter, value in p.evidence.items())
    lines = [headline(p), f"critical path: {share}", f"rests on rates that are {rests}"]
    if not p.complete:
        lines.append("the run ended in a fault: what came after it is missing")
    headings = ("kernel", "core", "calls", "us", "range", "% of light", "bound by", "pipes", "waits most at")
    rows = [_row(kernel, recording, names, positions) for kernel in p.kernels[:_SHOWN_KERNELS]]
    lines += ["", *table(rows, headings)]
    if len(p.kernels) > _SHOWN_KERNELS:
        lines.append(f"and {counted(len(p.kernels) - _SHOWN_KERNELS, 'kernel')} more; JSON= has all")
    return lines


def _row(
    kernel: KernelTime,
    recording: Recording,
    names: Mapping[int, str],
    positions: Mapping[int, InstructionPosition],
) -> list[str]:
    busy = " ".join(f"{pipe} {share:.0%}" for pipe, share in list(kernel.busy.items())[:3])
    each = kernel.calls or 1
    return [
        names.get(kernel.kernel, str(kernel.kernel)),
        kernel.member,
        f"{kernel.calls:,}",
        f"{kernel.time_us / each:,.1f}",
        f"({kernel.low_us / each:,.1f} to {kernel.high_us / each:,.1f})",
        f"{100 * kernel.light_us / kernel.time_us:.0f} %" if kernel.time_us else "-",
        kernel.bound,
        busy,
        _wait(kernel, recording, positions),
    ]


def _wait(kernel: KernelTime, recording: Recording, positions: Mapping[int, InstructionPosition]) -> str:
    if not kernel.waits or kernel.waits[0].time_us < 0.01 * kernel.time_us:
        return "-"
    wait = kernel.waits[0]
    row = recording.rows[wait.row]
    at = positions.get(wait.row)
    line = f"line {at.line}, " if at and at.line else ""
    what = f"{PIPES.get(row.pipe)} to {PIPES.get(row.to)}" if row.kind == WAIT_FLAG else "slot of a pipe"
    assert row.kind in (WAIT_FLAG, SLOT_ACQUIRED)
    return f"{line}{what}: {100 * wait.time_us / kernel.time_us:.0f} %"


def changed_line(name: str, before: Prediction, after: Prediction) -> str:
    """Return what a change would do to the run: `what if double: 31.0 us, 22 % less`."""
    share = 100 * (1 - after.time_us / before.time_us) if before.time_us else 0.0
    effect = "no difference" if abs(share) < 0.5 else f"{abs(share):.0f} % {'less' if share > 0 else 'more'}"
    return f"what if {name}: {microseconds(after.time_us)}, {effect}; bound by {after.bound}"


def compared_lines(artifact: str, ours: Prediction, names: Mapping[int, str], other: PredictionDocument) -> list[str]:
    """Return which of two predictions is faster, in all and by kernel; a verdict only where ranges do not overlap."""
    theirs = other.prediction
    if ours.chip != theirs.chip:
        return [f"{other.artifact} was predicted for {theirs.chip}: nothing to compare"]
    name = other.artifact
    lines = [_compared("the run", artifact, _range(ours), name, _range(theirs))]
    mine = {names[kernel.kernel]: kernel for kernel in ours.kernels}
    for kernel in theirs.kernels:
        called = other.names.get(kernel.kernel, str(kernel.kernel))
        if called in mine:
            lines.append(_compared(called, artifact, _range(mine[called]), name, _range(kernel)))
    return lines


def _range(of: Prediction | KernelTime) -> tuple[float, float, float]:
    return of.time_us, of.low_us, of.high_us


def _compared(
    what: str, mine: str, ours: tuple[float, float, float], other: str, theirs: tuple[float, float, float]
) -> str:
    here, there = (f"{microseconds(times[0])} {span(*times[1:], times[0])}" for times in (ours, theirs))
    times = f"{what}: {here} here, {there} in {other}"
    if ours[2] < theirs[1]:
        return f"{times}: {mine} is faster"
    if theirs[2] < ours[1]:
        return f"{times}: {other} is faster"
    return f"{times}: the ranges overlap, so no verdict"


def unpriced_lines(
    prediction: Prediction, recording: Recording, positions: Mapping[int, InstructionPosition]
) -> list[str]:
    """Return an error line for each position of an instruction without a price."""
    lines: dict[str, None] = {}
    for number in prediction.unpriced:
        at = positions.get(number)
        name = recording.rows[number].name
        where = f"{at.path}:{at.line}: " if at and at.line else ""
        message = (
            f"error: no rate of '{name}' is known for {prediction.chip}, so predicted times are too "
            "low; add a row to RATES="
        )
        lines[f"{where}{message} 'slope.{name}'"] = None
    return list(lines)
