"""Disk space of a workspace by use: builds of each artifact, unpacked runs, logs, the user's cache."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact.outputs import MARKER, artifact_of
from pypto_build.replay.results import REPLAYS

#: Below the build directory: archives that were opened, what jobs printed.
PACKS, LOGS = "packs", "logs"
#: Directories of the cache, each of which has one for every version.
_DAY_NS = 24 * 3600 * 10**9
_CACHED = ("headers", "instructions", "runtime")


@dataclass(frozen=True)
class Use:
    """A directory or file: its bytes on disk, the time of its last use, and the artifact it was built from.

    ``runs`` and ``packs`` are the bytes in results of replays and in archives. ``lost`` is the artifact if it no longer
    exists.
    """

    path: Path
    size: int
    used_ns: int
    runs: int = 0
    packs: int = 0
    lost: Path | None = None


def outputs(build_dir: Path) -> list[Use]:
    """Return the builds of every artifact on every platform."""
    return [_output(marker.parent) for marker in sorted(build_dir.glob(f"*/*/{MARKER}"))]


def _output(path: Path) -> Use:
    root = artifact_of(path)
    runs = _size(path / REPLAYS)
    packs = sum(_size(pack) for pack in path.glob("*.tar.*"))
    lost = root if root is not None and not root.exists() else None
    return Use(path, _size(path), _used(path / ".lock", path / REPLAYS, path), runs, packs, lost)


def others(build_dir: Path) -> list[Use]:
    """Return opened archives and logs."""
    paths = [*build_dir.glob(f"{PACKS}/*"), *build_dir.glob(f"{LOGS}/*.log")]
    return [Use(path, _size(path), _used(path)) for path in sorted(paths)]


def cached(cache: Path) -> list[Use]:
    """Return the builds that all workspaces share, a directory for each version."""
    paths = (path for kind in _CACHED for path in sorted((cache / kind).glob("*")) if path.is_dir())
    return [Use(path, _size(path), _read(path)) for path in paths]


def _size(path: Path) -> int:
    """Return the bytes on disk of all files in ``path``; links are not followed."""
    total = 0
    for entry in _below(path):
        with suppress(OSError):
            total += entry.lstat().st_blocks * 512
    return total


def _below(path: Path) -> Iterator[Path]:
    if path.is_dir() and not path.is_symlink():
        for directory, _, names in os.walk(path):
            yield from (Path(directory, name) for name in names)
    else:
        yield path


def _used(*paths: Path) -> int:
    """Return the time of the last change of these paths; every run writes the lock of its directories."""
    return max(_times(paths), default=0)


def _times(paths: Iterable[Path]) -> Iterator[int]:
    for path in paths:
        with suppress(OSError):
            yield path.lstat().st_mtime_ns


def _read(path: Path) -> int:
    """Return the time at which a file in ``path`` was last read or written; file systems note a read once a day."""
    times = [0]
    for entry in _below(path):
        with suppress(OSError):
            status = entry.lstat()
            times.append(max(status.st_atime_ns + _DAY_NS, status.st_mtime_ns))
    return max(times)
