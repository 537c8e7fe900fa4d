"""Where a manifest's paths lead: re-rooted onto the artifact, and confined to it."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from .errors import ArtifactError

_MOVED = "the files of an artifact lie below it; copy the file there or mark the kernel `external`"


def inside(root: Path, value: object, place: str, field: str) -> Path:
    """The existing file or directory that ``value`` means, below ``root``.

    A relative path is taken below ``root``. An absolute one that is not below ``root`` comes from the machine the
    artifact was compiled on: the longest suffix of it that exists below ``root`` is meant. Raises a usage error naming
    ``place`` (the manifest and line) and ``field`` for ``..``, a path or link that leads outside, a missing file.
    """
    path = as_path(value, place, field)
    if ".." in path.parts:
        raise ArtifactError(place, f"{field}: path {str(path)!r} contains '..'", _MOVED)
    found = root / path if not path.is_absolute() else _reroot(root, path)
    if found is None:
        raise ArtifactError(place, f"{field}: path {str(path)!r} is outside the artifact {root}", _MOVED)
    if not found.exists():
        shown = found.relative_to(root)
        raise ArtifactError(place, f"{field}: file {shown.as_posix()!r} is missing", "restore it or compile again")
    real_root, real = os.path.realpath(root), os.path.realpath(found)
    if os.path.commonpath([real_root, real]) != real_root:
        raise ArtifactError(place, f"{field}: {str(path)!r} is a link out of the artifact, to {real}", _MOVED)
    return found


def external(root: Path, value: object, place: str, field: str) -> Path:
    """The existing path that an ``external`` kernel names: absolute, or relative to ``root``."""
    path = as_path(value, place, field)
    found = Path(os.path.normpath(root / path))
    if not found.exists():
        raise ArtifactError(
            place, f"{field}: external file {str(path)!r} is missing", "bring it to this machine or correct the path"
        )
    return found


def as_path(value: object, place: str, field: str) -> PurePosixPath:
    """``value`` of a manifest as a path; a usage error where it is none."""
    if isinstance(value, (str, PurePosixPath)) and str(value) not in ("", ".") and "\0" not in str(value):
        return PurePosixPath(value)
    raise ArtifactError(place, f"{field}: {value!r} is not a path", "give the path of a file of the artifact")


def _reroot(root: Path, path: PurePosixPath) -> Path | None:
    for base in (root, Path(os.path.realpath(root))):
        if path.is_relative_to(base):
            return root / path.relative_to(base)
    for start in range(1, len(path.parts)):
        candidate = root.joinpath(*path.parts[start:])
        if candidate.exists():
            return candidate
    return None
