"""Which units have to be looked at by SCons at all.

SCons spends about a millisecond on every node, whether or not it is up to date, which would make a 400-kernel artifact
slower to check than to replay. So each unit (a kernel or the orchestration) has a key over everything its binary
depends on: its text, its headers, the flags and the compiler. A unit whose key is the one its binary was made from, and
whose binary still has the content it had then, is *settled*: it needs no node. The others are the frontier and are
declared in full. Content decides everywhere; the record only remembers digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact.atomic import write_bytes
from pypto_build.artifact.files import decode_json, read_bytes

RECORD = ".settled.json"
BINARIES = "binaries.json"


@dataclass(frozen=True)
class Unit:
    """One source and the binary made from it. ``name`` is the path under OUT without a suffix."""

    name: str
    source: Path
    key: str
    suffix: str = ".so"

    @property
    def binary(self) -> str:
        """What a runtime loads, relative to OUT."""
        return f"{self.name}{self.suffix}"


@dataclass(frozen=True)
class Frontier:
    """What the record says of a set of units."""

    unsettled: tuple[Unit, ...]
    digests: dict[str, str]  # of the settled units' binaries, by the unit's name
    complete: bool  # nothing to build, and the list of binaries is the one these units give


def find_frontier(output: Path, units: Iterable[Unit]) -> Frontier:
    """Compare ``units`` with what was recorded under ``output``."""
    units = tuple(units)
    record = {name: entry for name, entry in _load(output / RECORD).items() if _is_entry(entry)}
    settled = {unit.name: record[unit.name]["binary"] for unit in units if _is_settled(output, unit, record)}
    unsettled = tuple(unit for unit in units if unit.name not in settled)
    _remove_damaged(output, unsettled, record)
    listed = _load(output / BINARIES)
    complete = not unsettled and listed == {unit.binary: settled[unit.name] for unit in units}
    return Frontier(unsettled, settled, complete)


def settle(output: Path, units: Iterable[Unit], known: Mapping[str, str]) -> None:
    """Record ``units`` as built, and list their binaries by content for whoever depends on all of them.

    ``known`` are the digests of those that were settled when this run began.
    """
    digests = {unit.name: known.get(unit.name) or _digest(output / unit.binary) for unit in units}
    record = {unit.name: {"key": unit.key, "binary": digests[unit.name]} for unit in units}
    _write(output / BINARIES, {unit.binary: digests[unit.name] for unit in units})
    _write(output / RECORD, record)


def _is_settled(output: Path, unit: Unit, record: dict[str, Any]) -> bool:
    known = record.get(unit.name)
    return known is not None and known["key"] == unit.key and known["binary"] == _digest(output / unit.binary)


def _remove_damaged(output: Path, unsettled: Iterable[Unit], record: dict[str, Any]) -> None:
    """Drop binaries that nobody's edit explains: SCons looks at a target's inputs, never at its content."""
    for unit in unsettled:
        if record.get(unit.name, {}).get("key") == unit.key:
            (output / unit.binary).unlink(missing_ok=True)


def _digest(path: Path) -> str | None:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


def _load(path: Path) -> dict[str, Any]:
    """The object in ``path``; empty when it is missing or is no such file, which only costs a look by SCons."""
    try:
        return decode_json(read_bytes(path), dict[str, Any])
    except (OSError, ValueError):
        return {}


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and {"key", "binary"} <= value.keys()


def _write(path: Path, value: dict[str, Any]) -> None:
    write_bytes(path, msgspec.json.format(msgspec.json.encode(value, order="sorted"), indent=1) + b"\n")
