"""A picture of traces: where the time of a run went, one bar a span, one group of rows a process.

    python -m benchmarks.trace_picture PICTURE.svg TITLE=build/profile.json [TITLE=other.json ...]

The traces are those that ``PROFILE=1`` writes. All are drawn to the same scale, one below the other.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from pypto_build.artifact.files import decode_json, read_bytes

_WIDTH, _LEFT, _RIGHT = 1080, 40, 24
_ROW, _BAR, _HEAD, _GAP = 20, 16, 34, 26
# Shorter spans are drawn without their names.
_NAMED_PX = 38
_PX_A_LETTER = 6.1
_STYLE = """
  text { font: 11.5px system-ui, sans-serif; fill: #1c2733 }
  .title { font-weight: 600; font-size: 15px }
  .who { fill: #52606d }
  .axis { stroke: #d5dde5 }
  .page { fill: #fff }
  rect { stroke: #8aa0b4; stroke-width: .6 }
  .start { fill: #dfe8f0 } .work { fill: #f4f7fa } .command { fill: #ffe9b0 }
"""


@dataclass(frozen=True)
class Bar:
    """A span: its times in milliseconds since the trace's beginning, and the row it is drawn in."""

    name: str
    category: str
    process: int
    begin: float
    end: float
    row: int


@dataclass(frozen=True)
class Trace:
    """A trace: its title, its bars, and what its processes are called."""

    title: str
    bars: list[Bar]
    processes: list[str]


def main(argv: Sequence[str]) -> int:
    """Draw."""
    if len(argv) < 2 or not all("=" in word for word in argv[1:]):
        print("usage: python -m benchmarks.trace_picture PICTURE.svg TITLE=profile.json ...", file=sys.stderr)
        return 2
    traces = []
    for word in argv[1:]:
        title, _, path = word.partition("=")
        events = decode_json(read_bytes(Path(path)), dict[str, Any])["traceEvents"]
        traces.append(Trace(title, bars(events), processes(events)))
    Path(argv[0]).write_text(picture(traces), encoding="utf-8")
    return 0


def processes(events: Sequence[dict[str, Any]]) -> list[str]:
    """Return the names of a trace's processes, in the order of their first spans."""
    names = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    spans = sorted((event for event in events if event["ph"] == "X"), key=lambda event: event["ts"])
    return [names.get(pid, "") for pid in dict.fromkeys(event["pid"] for event in spans)]


def bars(events: Sequence[dict[str, Any]]) -> list[Bar]:
    """The spans of a trace, each in the first row of its process where there is room below what it lies in."""
    spans = sorted((event for event in events if event["ph"] == "X"), key=lambda event: (event["ts"], -event["dur"]))
    first = spans[0]["ts"] if spans else 0
    taken: dict[int, list[float]] = {}  # by process: where the last bar of each row ends
    drawn, order = [], list[int]()
    for event in spans:
        begin = (event["ts"] - first) / 1000
        end = begin + event["dur"] / 1000
        rows = taken.setdefault(event["pid"], [])
        row = next((number for number, last in enumerate(rows) if last <= begin), len(rows))
        rows[row : row + 1] = [end]
        if event["pid"] not in order:
            order.append(event["pid"])
        drawn.append(Bar(event["name"], event["cat"], order.index(event["pid"]), begin, end, row))
    return drawn


def picture(traces: Sequence[Trace]) -> str:
    """The traces as SVG."""
    longest = max((bar.end for trace in traces for bar in trace.bars), default=1.0)
    scale = (_WIDTH - _LEFT - _RIGHT) / longest
    parts, top = [], 8
    for trace in traces:
        drawn, height = _draw(trace, top, scale, longest)
        parts += drawn
        top += height + _GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" role="img">'
    page = f'<rect class="page" width="{_WIDTH}" height="{top}" stroke="none"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", page, *parts, "</svg>", ""])


def _draw(trace: Trace, top: int, scale: float, longest: float) -> tuple[list[str], int]:
    """One trace below ``top``, and its height."""
    all_bars = trace.bars
    rows: dict[tuple[int, int], int] = {}
    for process_and_row in sorted({(bar.process, bar.row) for bar in all_bars}):
        rows[process_and_row] = len(rows) + process_and_row[0] + 1  # above each process is a row for its name
    height = _HEAD + (max(rows.values(), default=0) + 1) * _ROW
    end = max((bar.end for bar in all_bars), default=0.0)
    parts = [f'<text class="title" x="{_LEFT}" y="{top + 18}">{escape(trace.title)}: {end:.0f} ms</text>']
    step = next(step for step in (10, 20, 50, 100, 200, 500, 1000, 5000, 60000) if longest / step <= 12)
    for time in range(0, int(longest) + 1, step):
        x = _LEFT + time * scale
        parts.append(f'<line class="axis" x1="{x:.1f}" y1="{top + 26}" x2="{x:.1f}" y2="{top + height}"/>')
        parts.append(f'<text class="who" x="{x + 2:.1f}" y="{top + height + 10}">{time}</text>')
    for process, name in enumerate(trace.processes):
        y = top + _HEAD + (rows[process, 0] - 1) * _ROW + 13
        begin = min(bar.begin for bar in all_bars if bar.process == process)
        parts.append(f'<text class="who" x="{_LEFT + begin * scale:.1f}" y="{y}">{escape(name)}</text>')
    for bar in all_bars:
        parts += _bar(bar, top + _HEAD + rows[bar.process, bar.row] * _ROW, scale)
    return parts, height


def _bar(bar: Bar, y: int, scale: float) -> Iterator[str]:
    x, width = _LEFT + bar.begin * scale, max(1.0, (bar.end - bar.begin) * scale)
    title = escape(f"{bar.name}: {bar.end - bar.begin:.1f} ms")
    area = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}"'
    yield f'<rect class="{bar.category}" {area}><title>{title}</title></rect>'
    if width >= _NAMED_PX:
        letters = int((width - 6) / _PX_A_LETTER)
        name = bar.name.rpartition("/" if "." in bar.name else ": ")[2]
        name = name if len(name) <= letters else name[: letters - 1] + "…"
        yield f'<text x="{x + 3:.1f}" y="{y + 12}">{escape(name)}</text>'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
