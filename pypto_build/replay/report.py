"""Prints the log of a replay: the lines of pypto-lib's harness, word for word, with additional lines between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pypto_build import terminal
from pypto_build.replay.verdict import OutputResult, Verdict
from pypto_build.trace import span

Print = Callable[[str], None]


class Log:
    """Prints lines through `write`, and measures stages. A stage that raises has no "done" line.

    A log that is not `verbose` leaves out stages and lines that only report normal operation.
    """

    def __init__(self, write: Print, verbose: bool = True) -> None:
        self._write = write
        self._verbose = verbose
        self._start = time.perf_counter()

    def line(self, text: str) -> None:
        """Print one line under the run's tag."""
        self._write(f"[RUN] {_one_line(text)}")

    def detail(self, text: str) -> None:
        """Print one line of normal operation under the run's tag."""
        if self._verbose:
            self.line(text)

    def text_lines(self, *lines: str) -> None:
        """Print lines without a tag; empty ones are left out."""
        for line in lines:
            if line:
                self._write(_one_line(line))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Print `[RUN] name ...` before the block and `[RUN] name done (0.01s)` after it."""
        self.detail(f"{name} ...")
        start = time.perf_counter()
        with span(name), terminal.progress(lambda: f"[RUN] {name}"):
            yield
        self.detail(f"{name} done ({time.perf_counter() - start:.2f}s)")

    @property
    def elapsed_s(self) -> float:
        """Return the seconds since the log was opened."""
        return time.perf_counter() - self._start


def _one_line(text: str) -> str:
    """Escape line breaks: a tensor's name may hold any character, but must not start a line of its own."""
    return text.replace("\n", "\\n") if "\n" in text else text


def output_line(result: OutputResult) -> str:
    """Return ` 'y' PASS shape=(1024, 512) dtype=torch.float32`, with the comparator if it is not the default."""
    word = {"pass": "PASS", "mismatch": "FAIL", "unchecked": "UNCHECKED"}[result.status]
    rule = f" ({result.comparator})" if result.comparator not in ("", "allclose") else ""
    return f"  '{result.name}' {word}  shape={tuple(result.shape)} dtype=torch.{result.dtype}{rule}"


def mismatch_block(result: OutputResult, rtol: float, atol: float) -> list[str]:
    """Return the lines that describe an output's mismatch; `output_line` comes before them."""
    lines = [
        f"    Mismatched elements: {result.mismatched}/{result.numel}  rtol={rtol:g} atol={atol:g}",
        f"    max abs error {result.max_abs:.6g}, max rel error {result.max_rel:.6g}",
    ]
    if result.detail:
        lines.append(f"    {result.comparator}: {result.detail}")
    if result.first:
        lines.append(f"    first {len(result.first)} mismatches:")
        for item in result.first:
            flat = _flat(item.index, result.shape)
            lines.append(f"    [{flat}] actual={item.actual}, expected={item.expected}  at {tuple(item.index)}")
    return lines + output_hints(result)


def output_hints(result: OutputResult) -> list[str]:
    """Return the hints, one a line."""
    return [f"    hint: {hint}" for hint in result.hints]


def _flat(index: Sequence[int], shape: Sequence[int]) -> int:
    flat = 0
    for coordinate, size in zip(index, shape, strict=True):
        flat = flat * size + coordinate
    return flat


def last_line(verdict: Verdict, elapsed_s: float) -> str:
    """Return the line with the final status."""
    match verdict.status:
        case "pass":
            return f"PASS{verdict.where}{verdict.broken} ({elapsed_s:.2f}s)"
        case "unchecked":
            took = f"UNCHECKED{verdict.where}{verdict.broken} ({elapsed_s:.2f}s)"
            return f"{took}: no golden to compare with; ALLOW_UNCHECKED=1 lets it be"
        case "mismatch":
            names = [output.name for output in verdict.outputs if output.status == "mismatch"]
            return f"FAIL{verdict.where} ({elapsed_s:.2f}s): Output(s) does not match golden: {names}"
        case status:
            return f"FAIL{verdict.where} ({elapsed_s:.2f}s): {status}: {verdict.error}"


def rounds_line(times_s: Sequence[float]) -> str:
    """Return statistics over rounds, in microseconds of this machine's clock."""
    ordered = sorted(times_s)
    values = {
        "min": ordered[0],
        "median": ordered[len(ordered) // 2],
        "mean": sum(ordered) / len(ordered),
        "max": ordered[-1],
    }
    return f"  host_us ({len(ordered)} rounds) " + " ".join(
        f"{name}={value * 1e6:.1f}" for name, value in values.items()
    )
