"""Draws docs/dev/house.svg: the rooms as the modules import them, and the way of an edit through them.

`python docs/dev/house.py` writes it; a test compares it with what the modules import now.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

DOCS = Path(__file__).resolve().parents[1]
PICTURE = DOCS / "dev" / "house.svg"
_PACKAGE = DOCS.parent / "pypto_build"

# Of each room what it is for, and where its middle stands from left to right.
_ROOMS = {
    "cli": ("the pypto-build command", 0.38),
    "editor": ("language server, setup", 0.86),
    "rules": ("build rules; the only SCons", 0.14),
    "diagnose": ("instruments: why, where", 0.68),
    "interop": ("simpler, pytest, pins", 0.39),
    "compiler": ("a program to an artifact", 0.86),
    "replay": ("one run and its verdict", 0.39),
    "proof": ("results with their proof", 0.14),
    "toolchain": ("compilers' command lines", 0.63),
    "artifact": ("what an artifact is", 0.26),
    "pto": ("the .pto language", 0.86),
    "runtime": ("headers, scheduler, records", 0.5),
    "facts": ("dtypes, platforms, options of a run, faults: read by all", 0.5),
}
_WAY = (
    ("artifact", "a file is saved", "kernel, header, module, manifest, data"),
    ("rules", "what is asked for", "selection, options, one workspace"),
    ("proof", "what changed", "inputs seen last time, by content"),
    ("pto", "splice", "only for an edited .pto"),
    ("toolchain", "compile and link", "one unit, watched by a witness"),
    ("replay", "run in a child", "bind data, load, execute, compare"),
    ("proof", "record", "result and proof; publish to the store"),
    ("diagnose", "explain", "if it is not a pass"),
)

_WIDTH, _BOX, _TALL, _GAP = 1080, (186, 52), 104, 24
_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1c2733 }
  .name { font-weight: 600; font-size: 15px }
  .what { fill: #52606d; font-size: 11.5px }
  .title { font-weight: 600; font-size: 16px }
  rect { fill: #f4f7fa; stroke: #8aa0b4; rx: 6 }
  .step { fill: #fff8e6; stroke: #c9a227 }
  path { fill: none; stroke: #9fb1c1; stroke-width: 1.3; marker-end: url(#arrow) }
  .way { stroke: #c9a227; stroke-width: 1.8 }
  .page { fill: #fff; stroke: none; rx: 0 }
  .head { fill: #8aa0b4; stroke: none; marker-end: none }
"""
_ARROW_HEAD = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>'
)


def imports() -> dict[str, set[str]]:
    """The rooms that each room imports from, anywhere in its modules; the facts are below all."""
    imported: dict[str, set[str]] = {room: set() for room in _ROOMS}
    for path in sorted(_PACKAGE.rglob("*.py")):
        parts = path.relative_to(_PACKAGE).with_suffix("").parts
        if parts[0] in imported:
            imported[parts[0]] |= {*_named(path, len(parts)), "facts"} & _ROOMS.keys() - {parts[0]}
    return imported


def _named(path: Path, depth: int) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("pypto_build."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pypto_build."):
            yield (node.module or "").split(".")[1]
        elif isinstance(node, ast.ImportFrom) and (node.module == "pypto_build" or node.level == depth):
            yield from [(node.module or "").split(".")[0]] if node.level and node.module else []
            yield from (alias.name for alias in node.names if not (node.level and node.module))


def reduced(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The imports without those that follow from others."""

    def below(room: str) -> set[str]:
        return graph[room].union(*map(below, graph[room])) if graph[room] else set()

    return {room: {other for other in to if not any(other in below(via) for via in to)} for room, to in graph.items()}


def rows(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The rooms from the top: each one above all that it imports, as low as that allows."""

    def level(room: str) -> int:
        return 1 + max(map(level, graph[room]), default=-1)

    levels = {room: level(room) for room in _ROOMS}
    return [[room for room in _ROOMS if levels[room] == number] for number in range(max(levels.values()), -1, -1)]


def _box(x: float, y: float, width: float, name: str, what: str, kind: str = "") -> str:
    shape = f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{_BOX[1]}"/>'
    middle = x + width / 2
    return shape + "".join(
        f'<text class="{role}" x="{middle:g}" y="{y + down}" text-anchor="middle">{escape(text)}</text>'
        for role, down, text in (("name", 22, name), ("what", 40, what))
    )


def _rooms(graph: Mapping[str, set[str]], top: float) -> tuple[list[str], float]:
    """The boxes and arrows of the rooms; where the next part of the picture begins."""
    boxes: list[str] = []
    position: dict[str, tuple[float, float]] = {}
    for line, row in enumerate(rows(graph)):
        for room in row:
            what, middle = _ROOMS[room]
            width = _BOX[0] * (4 if room == "facts" else 1)
            position[room] = (middle * _WIDTH, top + line * _TALL)
            name = f"{room}/" if room != "cli" else "cli.py"
            boxes.append(_box(middle * _WIDTH - width / 2, position[room][1], width, name, what))
    arrows = [
        _arrow(position[room], position[other])
        for room, to in reduced(graph).items()
        for other in sorted(to)
        if other != "facts"
    ]
    return arrows + boxes, top + len(rows(graph)) * _TALL


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x, y), (to_x, to_y) = (start[0], start[1] + _BOX[1]), (end[0], end[1] - 4)
    bend = (to_y - y) * 0.5
    return f'<path d="M{x:g} {y:g} C{x:g} {y + bend:g} {to_x:g} {to_y - bend:g} {to_x:g} {to_y:g}"/>'


def _way(top: float) -> tuple[list[str], float]:
    """The steps of an edit, four in a row; where the picture ends."""
    width = (_WIDTH - 80 - 3 * _GAP) / 4
    parts: list[str] = []
    for number, (room, name, what) in enumerate(_WAY):
        x, y = 40 + number % 4 * (width + _GAP), top + number // 4 * (_TALL - 8)
        parts.append(_box(x, y, width, f"{number + 1}  {name}", what, "step"))
        parts.append(f'<text class="what" x="{x + width / 2:g}" y="{y + 68:g}" text-anchor="middle">{room}/</text>')
        if number % 4:
            parts.append(f'<path class="way" d="M{x - _GAP:g} {y + 26:g} L{x - 4:g} {y + 26:g}"/>')
    return parts, top + (len(_WAY) + 3) // 4 * (_TALL - 8)


def picture() -> str:
    """The whole SVG."""
    house, middle = _rooms(imports(), 56)
    path_of_edit, end = _way(middle + 30)
    title = "Rooms: an arrow goes to what a room imports (what follows from others is left out)"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {end:g}" role="img">',
            f"<title>Rooms and the way of an edit</title><style>{_STYLE}</style>{_ARROW_HEAD}",
            '<rect class="page" width="100%" height="100%"/>',
            f'<text class="title" x="40" y="32">{title}</text>',
            *house,
            f'<text class="title" x="40" y="{middle + 10:g}">The way of an edit</text>',
            *path_of_edit,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
