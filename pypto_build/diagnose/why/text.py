"""A chain for people: the element, and below each link what it was made of."""

from __future__ import annotations

from collections.abc import Iterator

from pypto_build.diagnose.why.links import Link, Summary


def lines_of(link: Link, depth: int = 0) -> Iterator[str]:
    """Indented by how far back it is."""
    pad = "  " * depth
    instruction = f"  {link.instruction}" if link.instruction else ""
    note = f"  ({link.note})" if link.note else ""
    mark = "   <-- parts from the reference here" if link.parts else ""
    yield f"{pad}{link.where} = {_value(link)}{instruction}{note}{mark}"
    places = [place for place in (link.cpp, link.pto) if place]
    if places:
        yield f"{pad}    task {link.task} {link.kernel}{_block(link)}  {'  '.join(places)}"
    for summary in link.combined:
        yield f"{pad}    of {_summary(summary)}"
    for one in link.of:
        yield from lines_of(one, depth + 1)


def _value(link: Link) -> str:
    value = "?" if link.value is None else f"{link.value:.7g}"
    return f"{value}, the reference has {link.expected:.7g}" if link.differs and link.expected is not None else value


def _block(link: Link) -> str:
    return f" block {link.block}" if link.block else ""


def _summary(summary: Summary) -> str:
    largest = ", ".join(f"[{row}, {col}] {value:.6g}" for (row, col), value in summary.largest)
    differ = f", {summary.differ} differ" if summary.differ else ""
    return f"{summary.count} elements from {summary.min:.6g} to {summary.max:.6g}{differ}; the largest: {largest}"
