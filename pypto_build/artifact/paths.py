"""Where a manifest's paths lead: re-rooted onto the artifact, and confined to it."""

from __future__ import annotations

import os
import posixpath
import stat
from pathlib import Path

from .errors import ArtifactError
from .files import check_size
from .manifest_values import shown

_BELOW = "the files of an artifact lie below it; copy the file there or mark the kernel `external`"
_AGAIN = "compile again or correct the manifest"
_LONGEST = 4096  # characters of a path; no system takes more


def way_to(path: Path, directory: Path) -> str:
    """``path`` as a file in ``directory`` tells it, so that a copy of both elsewhere finds its own.

    That is relative to ``directory`` where it lies below it, or where they have more in common than the root of the
    file system and no link on the way leads elsewhere; else absolute.
    """
    if path.is_relative_to(directory):
        return path.relative_to(directory).as_posix()
    way = os.path.relpath(path, directory)
    real = os.path.relpath(os.path.join(os.path.realpath(path.parent), path.name), os.path.realpath(directory))
    return way if way == real and os.path.commonpath([path, directory]) != os.sep else str(path)


class SourceTree:
    """The files below an artifact's root, looked up as its manifest spells them.

    Errors are usage errors that name ``place`` (the manifest and line) and ``field``. Works on text, since a manifest
    may name hundreds of files and is read by every build.
    """

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self._real_root = os.path.realpath(root)
        self._real_directories: dict[str, str] = {}

    def file(self, value: object, place: str, field: str) -> Path:
        """The file inside the artifact that ``value`` means.

        A relative path is taken below the root. An absolute one that is not below it comes from the machine the
        artifact was compiled on: the longest suffix of it that exists below the root is meant. Refused are ``..``,
        paths and links that lead outside, and what is no file.
        """
        path = _text(value, place, field)
        if ".." in path.split("/"):
            raise ArtifactError(place, f"{field}: path {path!r} contains '..'", _BELOW)
        path = posixpath.normpath(path)
        found = self._reroot(path) if path.startswith("/") else f"{self.root}/{path}"
        if found is None:
            raise ArtifactError(place, f"{field}: path {path!r} is outside the artifact {self.root}", _BELOW)
        try:
            status = os.lstat(found)
            is_link = stat.S_ISLNK(status.st_mode)
            status = os.stat(found) if is_link else status
        except OSError:
            shown = found[len(self.root) + 1 :]
            raise ArtifactError(place, f"{field}: file {shown!r} is missing", "restore it or compile again") from None
        real = os.path.realpath(found) if is_link else self._real(found)
        if not real.startswith(f"{self._real_root}/"):
            raise ArtifactError(place, f"{field}: {path!r} is a link out of the artifact, to {real}", _BELOW)
        if not stat.S_ISREG(status.st_mode):
            raise ArtifactError(place, f"{field}: {path!r} is not a file", _AGAIN)
        check_size(found, status.st_size)
        return Path(found)

    def external_file(self, value: object, place: str, field: str) -> Path:
        """The file anywhere on this machine that ``value`` means."""
        found = self.external(value, place, field)
        if not found.is_file():
            raise ArtifactError(place, f"{field}: {str(found)!r} is not a file", _AGAIN)
        check_size(found, found.stat().st_size)
        return found

    def external(self, value: object, place: str, field: str) -> Path:
        """The file or directory anywhere on this machine that ``value`` means."""
        path = _text(value, place, field)
        found = posixpath.normpath(posixpath.join(self.root, path))
        if not os.path.exists(found):
            raise ArtifactError(
                place, f"{field}: external {path!r} is missing", "bring it to this machine or correct the path"
            )
        return Path(found)

    def _reroot(self, path: str) -> str | None:
        for base in (self.root, self._real_root):
            if path.startswith(f"{base}/"):
                return self.root + path[len(base) :]
        parts = path.strip("/").split("/")
        candidates = (f"{self.root}/{'/'.join(parts[start:])}" for start in range(len(parts)))
        return next((candidate for candidate in candidates if os.path.exists(candidate)), None)

    def _real(self, path: str) -> str:
        """Where a file is that is no link."""
        directory, name = posixpath.split(path)
        if directory not in self._real_directories:
            self._real_directories[directory] = os.path.realpath(directory)
        return f"{self._real_directories[directory]}/{name}"


def _text(value: object, place: str, field: str) -> str:
    if isinstance(value, str) and value not in ("", ".") and "\0" not in value and len(value) <= _LONGEST:
        try:
            os.fsencode(value)
            return str(value)
        except UnicodeEncodeError:
            pass
    raise ArtifactError(place, f"{field}: {shown(value)} is not a path", "give the path of a file of the artifact")
