"""Reads the JSON that a run leaves for instruments, and the numbers in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import read_text
from pypto_build.artifact.shapes import fits_memory

#: Bytes of a record; that of a run of a million tasks has about half of it.
_LARGEST = 1 << 30
#: Numbers of a list: dimensions of a tensor, lanes of a task.
_MOST = 64
#: A time beyond any, in cycles or microseconds.
_LATEST = 2.0**63
_SHOWN = 60
_WHOLE = re.compile(r"\s*-?[0-9]{1,20}\s*\Z")


def text_or_nothing(path: Path) -> str:
    """The text of a source, which only gives names; empty if it cannot be read."""
    try:
        return read_text(path, errors="replace")
    except OSError:
        return ""


def newest(directory: Path, patterns: Iterable[str]) -> Path | None:
    """The last file of the first pattern that any file below a directory has."""
    for pattern in patterns:
        found = sorted(file for file in directory.glob(pattern) if not file.is_dir())  # a pipe is told when it is read
        if found:
            return found[-1]
    return None


def read_document(path: Path, again: str) -> Any:
    """Read the JSON file at `path`. Raises a usage error that ends with `again`, the command for a new file."""
    try:
        return json.loads(read_text(path, _LARGEST))
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", again) from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ArtifactError(path, f"is not JSON: {reason}", f"the run that wrote it did not finish; {again}") from None


def whole(value: object, low: int = -(1 << 63), high: int = (1 << 64) - 1) -> int:
    """A number of a record from `low` to `high`, or its digits. Raises `ValueError` for anything else."""
    found: int | None = None
    if (
        isinstance(value, int)
        or (isinstance(value, float) and value.is_integer())
        or (isinstance(value, str) and _WHOLE.match(value))
    ):
        found = int(value)
    if found is None or not low <= found <= high:
        raise ValueError(f"{shown(value)} is no number from {low} to {high}")
    return found


def wholes(values: object, low: int = -(1 << 63), high: int = (1 << 64) - 1) -> tuple[int, ...]:
    """The numbers of a list in a record. Raises `ValueError` for anything else."""
    if not isinstance(values, list) or len(values) > _MOST:
        raise ValueError(f"{shown(values)} is no list of numbers")
    return tuple(whole(value, low, high) for value in values)


def extents(values: object) -> tuple[int, ...]:
    """A shape in a record. Raises `ValueError` for what is none, and for one that fits no memory."""
    shape = wholes(values, 0)
    if not fits_memory(shape):
        raise ValueError(f"shape {list(shape)} fits no memory")
    return shape


def moment(value: object) -> float:
    """A time of a record. Raises `ValueError` for what is none."""
    if isinstance(value, (int, float)) and abs(value) < _LATEST:
        return float(value)
    raise ValueError(f"{shown(value)} is no time")


def shown(value: object) -> str:
    """The beginning of what a record has."""
    if isinstance(value, (list, dict)):
        return f"a list of {len(value)}" if isinstance(value, list) else f"an object of {len(value)}"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
