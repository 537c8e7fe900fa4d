"""Chains that `why` has found, kept for the report: OUT/why/chains.json."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import read_record, write_bytes
from pypto_build.diagnose.findings import state_of

# A chain: elements with what made them, as `why` tells and keeps it.


# A chain for people: the element, and below each link what it was made of.


def lines_of(link: Link, depth: int = 0) -> Iterator[str]:
    """Indented by how far back it is."""
    pad = "  " * depth
    instruction = f"  {link.instruction}" if link.instruction else ""
    note = f"  ({link.note})" if link.note else ""
    mark = "   <-- parts from the reference here" if link.parts else ""
    yield f"{pad}{link.where} = {_value(link)}{instruction}{note}{mark}"
    places = [position for position in (link.cpp, link.pto) if position]
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


class Summary(msgspec.Struct):
    """Elements of an operand that are combined into one: how many, the extremes, and the largest by magnitude."""

    count: int
    min: float
    max: float
    differ: int
    largest: list[tuple[tuple[int, int], float]]


class Link(msgspec.Struct):
    """One element of a chain: its position, the instruction that made it, its value, and the reference's value.

    ``parts`` is true if it differs from the reference and none of its sources does. ``where`` is `'g' [3, 7]` or `UB
    0x0 [3, 7]`. ``of`` are the links that it was made from; if these are only some of them, ``combined`` is the number
    of all. A link that is ``cut`` was not followed further. ``instead`` is the module's operation if it differs from
    the instruction.
    """

    where: str
    value: float | None
    expected: float | None = None
    instruction: str = ""
    task: int = -1
    block: int = 0
    kernel: str = ""
    cpp: str = ""
    pto: str = ""
    note: str = ""
    differs: bool = False
    parts: bool = False
    cut: bool = False
    instead: str = ""
    combined: list[Summary] = []
    of: list[Link] = []


_LARGEST, _MOST = 64 << 20, 200


class KeptChain(msgspec.Struct):
    """The chain of one element of an output."""

    output: str
    index: list[Annotated[int, msgspec.Meta(ge=0)]]
    link: Link


class _Document(msgspec.Struct):
    state: str
    chains: list[KeptChain]


def keep(build_dir: Path, root: Path, chains: Sequence[KeptChain]) -> None:
    """Add chains to the file of the artifact's current state. A new chain replaces an older one of the same element."""
    state = state_of(root)
    try:
        chains_before = read_kept(build_dir, root)
    except ArtifactError:
        chains_before = []
    by_element = {(one.output, tuple(one.index)): one for one in (*chains_before, *chains)}
    document = _Document(state, list(by_element.values())[-_MOST:])
    write_bytes(_path(build_dir), msgspec.json.encode(document))


def read_kept(build_dir: Path, root: Path) -> list[KeptChain]:
    """The chains that hold for the artifact as it is now. Raises ArtifactError for a file that `why` has not left."""
    path = _path(build_dir)
    if not path.exists():
        return []
    document = read_record(path, _Document, "holds no chains", "remove it", largest=_LARGEST)
    return document.chains if document.state == state_of(root) else []


def _path(build_dir: Path) -> Path:
    return build_dir / "why" / "chains.json"
