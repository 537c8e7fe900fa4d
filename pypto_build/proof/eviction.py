"""Chooses the files that a store removes: the least recently used."""

from __future__ import annotations

import os
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
    """Yield the files of a store in ``directory``, which lie in ``KIND/XX/``. Links are skipped, because they may
    lead out of the store.
    """
    for kind in kinds:
        for shelf in _listed(directory / kind) if not (directory / kind).is_symlink() else ():
            for entry in _listed(shelf) if shelf.is_dir(follow_symlinks=False) else ():
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    yield Entry(Path(entry.path), status.st_size, status.st_mtime_ns)


def _listed(directory: Path | os.DirEntry[str]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def excess(entries: Iterable[Entry], size: int, oldest_ns: int = 0) -> list[Entry]:
    """Return the files to remove, so that the most recently used files of at most ``size`` bytes stay. Files last
    used before ``oldest_ns`` are removed too.
    """
    kept, gone = 0, []
    for entry in sorted(entries, key=lambda entry: entry.used_ns, reverse=True):
        if kept + entry.size > size or entry.used_ns < oldest_ns:
            gone.append(entry)
        else:
            kept += entry.size
    return gone


def remove(gone: Iterable[Entry]) -> None:
    """Remove files; skip missing files and those that the user may not remove."""
    for entry in gone:
        with suppress(OSError):
            entry.path.unlink()
