"""Markers that make stores visible, and the edits that insert them."""

from __future__ import annotations

from pathlib import Path

from pypto_build.artifact.files import read_source
from pypto_build.diagnose.findings import Edit

#: The size of a line of a data cache.
LINE_BYTES = 64
CLEAN, FENCE = "dcci((__gm__ void *)0, cache_line_t::ENTIRE_DATA_CACHE);", "dsb(DSB_DDR);"


def after_store(plain: bool, pipe: str) -> str:
    """Return the markers behind a plain C++ store, or behind a store of a pipe."""
    return f"{CLEAN} {FENCE}" if plain else f"pipe_barrier(PIPE_{pipe}); {FENCE}"


def edits_beside(root: Path, path: str, line: int, markers: str, *, before: bool = False) -> tuple[Edit, ...]:
    """Return the edit that puts markers beside the statement of a line, or nothing if the line is no statement."""
    statement = read_source(root / path).splitlines()[line - 1].strip() if line else ""
    if not statement.endswith(";"):
        return ()
    return (Edit(path, line, statement, f"{markers} {statement}" if before else f"{statement} {markers}"),)
