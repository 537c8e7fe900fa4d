"""Resolves a manifest's paths: re-rooted onto the artifact, and confined to it."""

from __future__ import annotations

import os
import posixpath
import stat
from pathlib import Path

from .errors import ArtifactError
from .files import check_size
from .manifest_eval import shown

_BELOW = "the files of an artifact lie below it; copy the file there or mark the kernel `external`"
_AGAIN = "compile again or correct the manifest"
_LONGEST = 4096  # characters of a path; no system takes more


def way_to(path: Path, directory: Path) -> str:
    """Return ``path`` as a file in ``directory`` should name it, so that copies of both find each other.

    The result is relative to ``directory`` for a path below it. It is relative, too, where they share more than the
    file system's root and no link on the way leads elsewhere; else absolute.
    """
    if path.is_relative_to(directory):
        return path.relative_to(directory).as_posix()
    relative = os.path.relpath(path, directory)
    real = os.path.relpath(os.path.join(os.path.realpath(path.parent), path.name), os.path.realpath(directory))
    return relative if relative == real and os.path.commonpath([path, directory]) != os.sep else str(path)


class SourceTree:
    """The files below an artifact's root, looked up as its manifest spells them.

    Errors are usage errors that name ``place`` (the manifest and line) and ``field``. Works on text, since a manifest
    may name hundreds of files and is read by every build.
    """

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self._real_root = os.path.realpath(root)
        self._real_directories: dict[str, str] = {}

    def file(self, value: object, position: str, field: str) -> Path:
        """Return the file inside the artifact that ``value`` means.

        A relative path is taken below the root. An absolute path outside of it comes from the machine of the compiler:
        the longest suffix that exists below the root is meant. Raises a usage error for ``..``, for paths and links
        that lead outside, and for directories.
        """
        path = _text(value, position, field)
        if ".." in path.split("/"):
            raise ArtifactError(position, f"{field}: path {path!r} contains '..'", _BELOW)
        path = posixpath.normpath(path)
        path_below = self._reroot(path) if path.startswith("/") else f"{self.root}/{path}"
        if path_below is None:
            raise ArtifactError(position, f"{field}: path {path!r} is outside the artifact {self.root}", _BELOW)
        try:
            status = os.lstat(path_below)
            is_link = stat.S_ISLNK(status.st_mode)
            status = os.stat(path_below) if is_link else status
        except OSError:
            shown = path_below[len(self.root) + 1 :]
            raise ArtifactError(
                position, f"{field}: file {shown!r} is missing", "restore it or compile again"
            ) from None
        real = os.path.realpath(path_below) if is_link else self._real(path_below)
        if not real.startswith(f"{self._real_root}/"):
            raise ArtifactError(position, f"{field}: {path!r} is a link out of the artifact, to {real}", _BELOW)
        if not stat.S_ISREG(status.st_mode):
            raise ArtifactError(position, f"{field}: {path!r} is not a file", _AGAIN)
        check_size(path_below, status.st_size)
        return Path(path_below)

    def external_file(self, value: object, position: str, field: str) -> Path:
        """The file anywhere on this machine that ``value`` means."""
        path = self.external(value, position, field)
        if not path.is_file():
            raise ArtifactError(position, f"{field}: {str(path)!r} is not a file", _AGAIN)
        check_size(path, path.stat().st_size)
        return path

    def external(self, value: object, position: str, field: str) -> Path:
        """The file or directory anywhere on this machine that ``value`` means."""
        path = _text(value, position, field)
        absolute = posixpath.normpath(posixpath.join(self.root, path))
        if not os.path.exists(absolute):
            raise ArtifactError(
                position, f"{field}: external {path!r} is missing", "bring it to this machine or correct the path"
            )
        return Path(absolute)

    def _reroot(self, path: str) -> str | None:
        for base in (self.root, self._real_root):
            if path.startswith(f"{base}/"):
                return self.root + path[len(base) :]
        parts = path.strip("/").split("/")
        candidates = (f"{self.root}/{'/'.join(parts[start:])}" for start in range(len(parts)))
        return next((candidate for candidate in candidates if os.path.exists(candidate)), None)

    def _real(self, path: str) -> str:
        """Return the real path of a file that is not a link itself."""
        directory, name = posixpath.split(path)
        if directory not in self._real_directories:
            self._real_directories[directory] = os.path.realpath(directory)
        return f"{self._real_directories[directory]}/{name}"


def _text(value: object, position: str, field: str) -> str:
    if isinstance(value, str) and value not in ("", ".") and "\0" not in value and len(value) <= _LONGEST:
        try:
            os.fsencode(value)
            return str(value)
        except UnicodeEncodeError:
            pass
    raise ArtifactError(position, f"{field}: {shown(value)} is not a path", "give the path of a file of the artifact")
