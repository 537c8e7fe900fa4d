"""Predicted times beside those measured on devices: errors by pipe and in all, ranking, and the bounding pipe.

    python -m benchmarks.device_time [--only FAMILY] [--half fit|held] [--json FILE]

Each measured kernel is a sequence of transfers, products and vector instructions with the sizes that its source states
(cases.py). Half of the rows fit rates, half are held out (measured.py). The targets on the held-out rows: cube
within 3 %, vector 10, fed by L2 12, fed by HBM 25, whole kernels over 20 us 25. Tau is at least 0.9, and the bounding
pipe is right in 90 % of rows. A missed target is shown as missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.device_time.cases import CASES, Case
from benchmarks.device_time.measured import FIT, HELD, LEFT_OUT, MEASURED, Measured
from pypto_build.diagnose.console import table
from pypto_build.diagnose.speed.model import predict
from pypto_build.diagnose.speed.rates import Rate, rates_of

#: Microseconds from the launch of a kernel that no scheduler of simpler's dispatches to its first instruction.
LAUNCH = {"910B1": 10.0, "950PR": 1.0}
_NONE = {"dispatch.submit": 0.0, "dispatch.pickup": 0.0, "dispatch.dependency": 0.0}
_WANTED = {"cube": 3.0, "vector": 10.0, "L2": 12.0, "HBM": 25.0, "kernels over 20 us": 25.0}


@dataclass(frozen=True)
class Result:
    """A measured row, and what is predicted: microseconds, by pipe, and the range."""

    measured: Measured
    task: float
    low: float
    high: float
    pipes: dict[str, float]

    @property
    def error(self) -> float:
        """Return the relative error of the whole time."""
        return self.task / self.measured.task - 1

    @property
    def bound(self) -> str:
        """Return the pipe that is predicted to take most, of those that were measured."""
        return max(self.measured.pipes, key=lambda pipe: self.pipes.get(pipe, 0.0))


def predicted(measured: Measured, replaced: Sequence[Rate] = ()) -> Result:
    """Predict one row."""
    case: Case = CASES[measured.family][measured.variant]()
    rates = rates_of(measured.chip, replaced)
    launch = LAUNCH[measured.chip]
    prediction = predict(
        case.recording, rates.with_values(**{"dispatch.preamble": 0.0, **_NONE, **case.rates})
    )  # fmt: skip
    kernel = prediction.kernels[0]
    each = kernel.time_us / kernel.calls
    waves = max(1.0, kernel.calls / rates.cores[kernel.member])
    pipes = {pipe: share * each * waves * case.times for pipe, share in kernel.busy.items()}
    scale = case.times
    return Result(
        measured,
        launch + scale * prediction.time_us,
        launch + scale * prediction.low_us,
        launch + scale * prediction.high_us,
        pipes,
    )


def tau(pairs: Sequence[tuple[float, float]]) -> float:
    """Return Kendall's tau of measured and predicted times; variants predicted alike count half."""
    score = total = 0.0
    for number, (real, model) in enumerate(pairs):
        for other, guess in pairs[number + 1 :]:
            if abs(real - other) <= 0.02 * max(real, other):
                continue  # no difference that the measurement shows
            total += 1
            alike = abs(model - guess) <= 0.002 * max(model, guess)
            score += 0 if alike else 1 if (real < other) == (model < guess) else -1
    return score / total if total else 1.0


def _mean(values: Sequence[float]) -> float:
    return 100 * sum(map(abs, values)) / len(values)


def summary(results: Sequence[Result]) -> list[tuple[str, int, float, str, str]]:
    """Return of each regime the number of values, the mean absolute error in percent, the worst, and the verdict."""
    errors: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for result in results:
        row = result.measured
        for pipe, name in (("M", "cube"), ("V", "vector")):
            if pipe in row.pipes:
                errors[name].append((result.pipes.get(pipe, 0.0) / row.pipes[pipe] - 1, row.name))
        for pipe in ("MTE1", "MTE2", "MTE3", "FIX"):
            if pipe in row.pipes:
                errors[f"pipe {pipe}"].append((result.pipes.get(pipe, 0.0) / row.pipes[pipe] - 1, row.name))
        if row.regime in ("L2", "HBM"):
            errors[row.regime].append((result.error, row.name))
        if row.task > 20:
            errors["kernels over 20 us"].append((result.error, row.name))
    lines = []
    for name, errors_of_name in errors.items():
        mean = _mean([error for error, _ in errors_of_name])
        worst = max(errors_of_name, key=lambda item: abs(item[0]))
        target = _WANTED.get(name)
        verdict = (
            "-" if target is None else f"within {target:.0f} %" if mean <= target else f"MISSED: {target:.0f} % wanted"
        )
        lines.append((name, len(errors_of_name), mean, f"{100 * worst[0]:+.0f} % {worst[1]}", verdict))
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables."""
    options = argparse.ArgumentParser(prog="benchmarks.device_time", description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("--only", default="", help="rows whose name has this text")
    options.add_argument("--half", default="", choices=("", FIT, HELD), help="rows of one half")
    options.add_argument("--json", type=Path, help="also write the rows as JSON")
    arguments = options.parse_args(argv)
    rows = [row for row in MEASURED if arguments.only in row.name and arguments.half in ("", row.half)]
    begin = time.perf_counter()
    results = [predicted(row) for row in rows]
    shown = [
        [
            result.measured.name,
            result.measured.half,
            f"{result.measured.task:,.1f}",
            f"{result.task:,.1f}",
            f"{100 * result.error:+.0f} %",
            " ".join(
                f"{pipe} {value:,.0f}/{result.pipes.get(pipe, 0.0):,.0f}"
                for pipe, value in result.measured.pipes.items()
            ),
        ]
        for result in results
    ]
    print(*table(shown, ("kernel", "half", "measured us", "predicted", "error", "pipes, measured/predicted")), sep="\n")
    for half in (FIT, HELD):
        of_half = [result for result in results if result.measured.half == half]
        if not of_half:
            continue
        print(f"\nrows that {'fit' if half == FIT else 'are held out'}: {len(of_half)}")
        lines = [
            [name, str(count), f"{mean:.1f} %", worst, verdict]
            for name, count, mean, worst, verdict in summary(of_half)
        ]
        print(*table(lines, ("what", "values", "mean error", "worst", "verdict")), sep="\n")
        _rank(of_half, results)
    inside = sum(result.low <= result.measured.task <= result.high for result in results)
    print(
        f"\nmeasured within the predicted range: {inside} of {len(results)} rows; {time.perf_counter() - begin:.1f} s"
    )
    print("not rebuilt:", *(f"{name}: {reason}" for name, reason in LEFT_OUT.items()), sep="\n  ")
    if arguments.json:
        arguments.json.write_text(
            json.dumps([[r.measured.name, r.measured.half, r.measured.task, r.task] for r in results])
        )
    return 0


def _rank(of_half: Sequence[Result], results: Sequence[Result]) -> None:
    families: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for result in results:
        families[result.measured.family].append((result.measured.task, result.task))
    ours = {result.measured.family for result in of_half}
    taus = {family: tau(pairs) for family, pairs in families.items() if len(pairs) > 1 and family in ours}
    if taus:
        mean = sum(taus.values()) / len(taus)
        worst = min(taus, key=lambda family: taus[family])
        verdict = "at least 0.9" if mean >= 0.9 else "MISSED: 0.9 wanted"
        print(f"tau among variants: {mean:.2f}, {verdict}; worst {taus[worst]:.2f} {worst}")
    bounds = [
        (result.measured.bound, result.bound, result.measured.name) for result in of_half if result.measured.bound
    ]
    if bounds:
        right = sum(real == model for real, model, _ in bounds)
        wrong = ", ".join(f"{name} ({real}, predicted {model})" for real, model, name in bounds if real != model)
        verdict = "at least 90 %" if right >= 0.9 * len(bounds) else "MISSED: 90 % wanted"
        print(f"bounding pipe right: {right} of {len(bounds)} rows, {verdict}" + (f"; wrong: {wrong}" if wrong else ""))


if __name__ == "__main__":
    sys.exit(main())
