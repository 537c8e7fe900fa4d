"""The table at the end of a command on many artifacts: jobs that need attention on top, counts of the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pypto_build import terminal
from pypto_build.replay.history import Past
from pypto_build.rules.many.row import Row, severity

#: Up to this number of jobs, all are shown.
_ALL = 12
_SLOWEST = 3
_BEFORE = 10  # columns that a reason leaves of a terminal


def show_table(rows: Sequence[Row], past: Mapping[str, Past], count: int, seconds: float, interrupted: bool) -> None:
    """Print the table. ``past`` is the history before this run, ``count`` the number of jobs that were asked for."""
    ordered = sorted(rows, key=lambda row: (-severity(row.status), row.job.label))
    everything = len(rows) <= _ALL or terminal.shows_details()
    shown = [row for row in ordered if everything or row.failed or _flipped(row, past)]
    if shown:
        cells = [_cells(row, past) for row in shown]
        cells.insert(0, ("status", "artifact", "time", "since", "what is wrong"))
        widths = [max(len(row[column]) for row in cells) for column in range(4)]
        terminal.say("", *(_line(row, widths) for row in cells))
    logs = [row for row in ordered if row.failed and row.log]
    terminal.say("", *(f"    {row.job.label}: {row.command or f'see {row.log}'}" for row in logs[:10]))
    if len(logs) > 10:
        terminal.say(f"    (and {len(logs) - 10} more)")
    _show_slowest(rows, shown)
    terminal.say(f"=== {counts(rows, count)} in {seconds:.1f} s{' (interrupted)' if interrupted else ''} ===")


def counts(rows: Sequence[Row], count: int) -> str:
    """``3 failed, 197 passed (150 cached)``."""
    failed = sum(row.failed for row in rows)
    cached = sum(row.cached for row in rows if not row.failed)
    passed, unknown = len(rows) - failed, count - len(rows)
    parts = [f"{failed} failed"] if failed else []
    parts += [f"{passed} passed{f' ({cached} cached)' if cached else ''}"] if passed else []
    parts += [f"{unknown} not done"] if unknown else []
    return ", ".join(parts) or "nothing to do"


def _cells(row: Row, past: Mapping[str, Past]) -> tuple[str, str, str, str, str]:
    took = "cached" if row.cached else f"{row.seconds:.2f} s"
    return row.word, row.job.label, took, since(row, past.get(row.job.label)), terminal.fitting(row.reason, _BEFORE)


def since(row: Row, past: Past | None) -> str:
    """Return the number of runs that ended as this one and their beginning, or the earlier status, as a phrase.

    The history has commands on several artifacts only.
    """
    if past is None:
        return "first listed"
    if past.status != row.word:
        return f"was {past.status}"
    runs = f"{past.runs + 1} runs"
    return f"{runs}, {past.since}" if past.since else runs


def _flipped(row: Row, past: Mapping[str, Past]) -> bool:
    known = past.get(row.job.label)
    return known is not None and known.status != row.word


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    *cells, last = row
    return "  ".join([*(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)), last]).rstrip()


def _show_slowest(rows: Sequence[Row], shown: Sequence[Row]) -> None:
    """Print the slowest jobs that the table does not show."""
    known = {id(row) for row in shown}
    slow = sorted((row for row in rows if not row.cached and id(row) not in known), key=lambda row: -row.seconds)
    if slow:
        named = ", ".join(f"{row.job.label} {row.seconds:.1f} s" for row in slow[:_SLOWEST])
        terminal.say(f"slowest of the others: {named}")
