"""Which files of a store have to go: those not used for longest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    """A file of a store; ``size`` is in bytes."""

    path: Path
    size: int
    used_ns: int


def entries(directory: Path, kinds: Iterable[str]) -> Iterator[Entry]:
    """The files of a store in ``directory``, which lie in ``KIND/XX/``."""
    for kind in kinds:
        for path in (directory / kind).glob("*/*"):
            with suppress(OSError):
                status = path.stat()
                yield Entry(path, status.st_size, status.st_mtime_ns)


def excess(found: Iterable[Entry], size: int, oldest_ns: int = 0) -> list[Entry]:
    """The least recently used files without which there are ``size`` bytes at most, and those not used since then."""
    kept, gone = 0, []
    for entry in sorted(found, key=lambda entry: entry.used_ns, reverse=True):
        if kept + entry.size > size or entry.used_ns < oldest_ns:
            gone.append(entry)
        else:
            kept += entry.size
    return gone


def remove(gone: Iterable[Entry]) -> None:
    """Remove files; one that is gone already, or that is not ours to remove, stays as it is."""
    for entry in gone:
        with suppress(OSError):
            entry.path.unlink()
