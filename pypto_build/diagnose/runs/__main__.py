"""Writes the page on all runs of commands on many artifacts.

python -m pypto_build.diagnose.runs --history FILE --html FILE [--title TEXT]
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.outputs import artifact_of
from pypto_build.diagnose.console import command, counted, tool_parser
from pypto_build.diagnose.findings import Finding, kept_reports, state_of
from pypto_build.replay.history import History, Result, Run, flips

# The page: what fails now and since when, what flipped in which run, times over revisions. It is static.

_CSS = Path(__file__).resolve().parents[1] / "report" / "page.css"
_STYLE = """
.states { display: inline-flex; gap: 1px; }
.states i { width: .5rem; height: 1rem; border-radius: 2px; background: var(--bad); }
.states i.good { background: var(--good); } .states i.none { background: var(--line); }
.states i.warn { background: var(--warn); }
svg.times { width: 10rem; height: 1.6rem; vertical-align: middle; }
svg.times polyline { fill: none; stroke: var(--accent); stroke-width: 1.5; }
svg.times circle { fill: var(--accent); }
.scroll { max-height: none; overflow: visible; }
td { overflow-wrap: anywhere; }
.badge { white-space: nowrap; }
@media (max-width: 760px) {
  thead { display: none; }
  table, tbody, tr, td { display: block; }
  tr { border-bottom: 1px solid var(--line); padding: .5rem 0; }
  td { border: 0; padding: .1rem 0; }
  td:not(:first-child, :empty)::before { content: attr(title) " "; color: var(--muted); }
}
"""
#: Runs that the marks of a job show, and flips that are listed.
_SHOWN, _FLIPS = 40, 200
_GOOD = ("pass",)
_UNSURE = ("unchecked",)
#: Of what fails, the most urgent first; everything else comes after these.
_URGENT = ("runtime_error", "hang", "build_error", "golden_error", "mismatch")


@dataclass(frozen=True)
class Page:
    """The link to an artifact's report, and the answer of triage."""

    url: str = ""
    cause: Finding | None = None


def runs_page(
    runs: Sequence[Run],
    results: Mapping[str, Mapping[int, Result]],
    title: str,
    reports: Mapping[tuple[str, str], Page] | None = None,
) -> str:
    """Return the whole file. ``reports`` are by artifact and platform."""
    pages = {job: _page(job, reports or {}) for job in results}
    shown = runs[-_SHOWN:]
    by_number = {run.number: run for run in runs}
    latest = {job: list(by_run.values())[-1] for job, by_run in results.items()}
    rank = {status: number for number, status in enumerate(_URGENT)}
    failing = sorted(
        (job for job, result in latest.items() if result.status not in _GOOD),
        key=lambda job: (rank.get(latest[job].status, len(rank)), job),
    )
    passing = sorted(latest.keys() - set(failing))
    began = _when(runs[-1]) if runs else "never"
    last = f"{len(failing)} of {len(latest)} fail" if failing else f"all {len(latest)} pass"
    body = [
        f"<header><h1>{escape(title)} {_badge(last, not failing)}</h1>"
        f"<p class=muted>{counted(len(runs), 'run')}, the last {began}</p></header><main>",
        _card("What needs attention", _jobs(failing, shown, by_number, results, pages)),
        _card("What flipped", _flips(by_number, results)),
        _card("What passes", _jobs(passing, shown, by_number, results, pages)),
        _card("Runs", _runs(runs, results)),
        "</main>",
    ]
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta name="color-scheme" content="light dark"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{escape(title)}</title><style>{_CSS.read_text(encoding='utf-8')}{_STYLE}</style></head><body>"
    )
    return f"{head}{''.join(body)}</body></html>\n"


def _jobs(
    jobs: Sequence[str],
    shown: Sequence[Run],
    by_number: Mapping[int, Run],
    results: Mapping[str, Mapping[int, Result]],
    pages: Mapping[str, Page],
) -> str:
    rows = [_job(job, shown, by_number, results[job], pages[job]) for job in jobs]
    return _table(("status", "what is wrong", "job", "since", "last runs", "seconds when it ran"), rows)


def _page(job: str, reports: Mapping[tuple[str, str], Page]) -> Page:
    """Return the report of a job, which is named `verb artifact platform …`."""
    artifact, platform = (*job.split()[1:3], "", "")[:2]
    return reports.get((artifact, platform), Page())


def _job(
    job: str, shown: Sequence[Run], by_number: Mapping[int, Run], by_run: Mapping[int, Result], page: Page
) -> list[str]:
    latest = list(by_run.values())[-1]
    changed = [run for run, _, _ in flips(by_run)]
    first = by_number.get(changed[-1] if changed else next(iter(by_run)))
    marks = "".join(_mark(run, by_run.get(run.number)) for run in shown)
    return [
        _badge(latest.status, latest.status in _GOOD),
        escape(latest.reason) + ("" if latest.status in _GOOD else _cause(page.cause)),
        f"<code>{escape(job)}</code>" + (f' <a href="{escape(page.url)}">report</a>' if page.url else ""),
        _at(first) if first else "",
        f"<span class=states>{marks}</span>",
        _times(by_number, [(run, result) for run, result in by_run.items() if not result.cached]),
    ]


def _cause(cause: Finding | None) -> str:
    """Return the answer of triage: the position, then what is wrong there."""
    if cause is None:
        return ""
    position = f"<code>{escape(cause.position)}</code> " if cause.position else ""
    return f"<br>{position}{escape(cause.message)}"


def _mark(run: Run, result: Result | None) -> str:
    kind = "none" if result is None else _kind(result.status)
    title = result.status if result else "not done"
    return f'<i class="{kind}" title="{escape(title)}, {escape(run.revision)} {_when(run)}"></i>'


def _kind(status: str) -> str:
    return "good" if status in _GOOD else "warn" if status in _UNSURE else "bad"


def _times(by_number: Mapping[int, Run], taken: Sequence[tuple[int, Result]]) -> str:
    """The seconds of runs that did something, as a line, and the last of them in words."""
    if not taken:
        return ""
    values = [result.seconds for _, result in taken[-_SHOWN:]]
    most = max(values) or 1.0
    step = 100 / max(len(values) - 1, 1)
    points = [(number * step, 19 - 17 * value / most) for number, value in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    x, y = points[-1]
    title = ", ".join(
        f"{by_number[run].revision or _when(by_number[run])}: {result.seconds:.2f} s"
        for run, result in taken[-_SHOWN:]
        if run in by_number
    )
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return (
        f'<svg class=times viewBox="-2 0 104 20" preserveAspectRatio="none"><title>{escape(title)}</title>'
        f'<polyline points="{line}"/><circle cx="{x:.1f}" cy="{y:.1f}" r="1.5"/></svg> {values[-1]:.2f}'
    )


def _flips(by_number: Mapping[int, Run], results: Mapping[str, Mapping[int, Result]]) -> str:
    flipped = [(run, job, before, now) for job, each in results.items() for run, before, now in flips(each)]
    flipped.sort(key=lambda flip: (-flip[0], flip[1]))
    rows = [
        [
            _at(by_number[run]) if run in by_number else "",
            f"{_badge(before.status, before.status in _GOOD)} → {_badge(now.status, now.status in _GOOD)}",
            escape(now.reason),
            f"<code>{escape(job)}</code>",
        ]
        for run, job, before, now in flipped[:_FLIPS]
    ]
    return _table(("in", "from, to", "what is wrong", "job"), rows)


def _runs(runs: Sequence[Run], results: Mapping[str, Mapping[int, Result]]) -> str:
    rows = []
    for run in reversed(runs[-_SHOWN:]):
        done = [each[run.number] for each in results.values() if run.number in each]
        failed = sum(result.status not in _GOOD for result in done)
        cached = sum(result.cached for result in done)
        rows.append([_at(run), escape(run.verbs), str(len(done)), str(failed), str(cached), f"{run.seconds:.1f}"])
    return _table(("run", "verb", "jobs", "failed", "cached", "seconds"), rows)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [
        "<tr>" + "".join(f'<td title="{title}">{cell}</td>' for title, cell in zip(titles, row, strict=True)) + "</tr>"
        for row in rows
    ]
    if not lines:
        return "<p class=muted>nothing</p>"
    head = "".join(f"<th>{title}</th>" for title in titles)
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"


def _card(title: str, content: str) -> str:
    return f"<section class=card><h2>{title}</h2>{content}</section>"


def _badge(text: str, good: bool) -> str:
    return f'<span class="badge {"good" if good else "bad"}">{escape(text)}</span>'


def _at(run: Run) -> str:
    revision = f"<code>{escape(run.revision)}</code> " if run.revision else ""
    return f"{revision}<span class=muted>{_when(run)}</span>"


def _when(run: Run) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(run.began))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = tool_parser("runs", __doc__)
    options.add_argument("--history", type=Path, required=True, metavar="FILE", help="BUILD_DIR/history.sqlite")
    options.add_argument("--html", type=Path, required=True, metavar="FILE", help="the page")
    options.add_argument("--title", default="Runs", metavar="TEXT")
    return options


def _reports(build_dir: Path, page: Path) -> dict[tuple[str, str], Page]:
    """Return what the page shows of reports, by artifact and platform."""
    start = page.resolve().parent
    pages = {}
    for directory in sorted(build_dir.glob("*/*/")):
        report = directory / "report.html"
        url = quote(os.path.relpath(report.resolve(), start)) if report.is_file() else ""
        pages[directory.name, directory.parent.name] = Page(url, _triaged(directory))
    return pages


def _triaged(directory: Path) -> Finding | None:
    """Return the first error of triage, unless the artifact was edited since."""
    root = artifact_of(directory)
    report = next((one for one in kept_reports(directory) if one.tool == "triage"), None)
    if report is None or root is None or report.state != state_of(root):
        return None
    return next((finding for finding in report.findings if finding.level == "error"), None)


@command("runs", parser)
def main(options: argparse.Namespace) -> int:
    """0 where the page is written, else 2."""
    history = History(options.history)
    page = runs_page(history.runs(), history.results(), options.title, _reports(options.history.parent, options.html))
    write_bytes(options.html, page.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
