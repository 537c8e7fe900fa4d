"""Digests of files, remembered by what the system says of a file: never by its time alone.

A digest is remembered with inode, size, time of change and time of status change. No program can set the last of
these, so a file whose four values are unchanged has the same content, with one exception: it was written again within
the clock's tick of its last change. A file that young is read every time, as git does for its index.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

from .looking import NOTHING, Identity, Looker, Paths, identity, unpack

#: Stands for the content of a file that does not exist, or is not a regular file.
ABSENT = ""
#: The suffix by which an input is the list of names in a directory.
LISTING = "/"

_TICK_NS = 50_000_000
TICK_S = _TICK_NS / 1e9
#: Of a file system that keeps times in seconds.
_COARSE_TICK_NS = 2_100_000_000
_PIECE = 1 << 20
# What editors, Python and our own runs leave beside the files that count.
_BESIDE = ("~", ".swp", ".swx", ".swo", ".pyc", ".bak", ".tmp", "__pycache__")

# What an installer writes about its work, and lines of it that are its own.
_RECORD = ".dist-info/RECORD"
_OF_A_PLACE = re.compile(rb"^__editable__|\.pyc,|\.dist-info/(?:INSTALLER|REQUESTED|direct_url\.json|RECORD),")


def changed_since(known: Identity, moment_ns: int) -> bool:
    """Whether a file may have been changed at ``moment_ns`` or after it, by its times."""
    return max(known[2], known[3]) + _tick(known) >= moment_ns


def _tick(known: Identity) -> int:
    in_seconds = known[2] % 1_000_000_000 == 0 and known[3] % 1_000_000_000 == 0
    return _COARSE_TICK_NS if in_seconds else _TICK_NS


class Digests:
    """The contents of files, each read once until it changes. Links are followed."""

    # What any of these has read in this process: many places look at the same packages and headers.
    _read_here: ClassVar[dict[str, tuple[Identity, str]]] = {}

    def __init__(self, known: Mapping[str, tuple[Identity, str]] | None = None, looker: Looker | None = None) -> None:
        self._looker = looker or Looker()
        self._known: dict[str, tuple[Identity, str]] = dict(known or {})
        self.used: dict[str, tuple[Identity, str]] = {}  # what may be remembered for the next run

    def learn(self, known: Mapping[str, tuple[Identity, str]]) -> None:
        """Take over what others have read."""
        self._known.update(known)

    def of(self, path: str) -> str:
        """The SHA-256 of the file at ``path``; of the names in a directory where ``path`` ends with a slash; of an
        installed package's list of files without what differs from place to place.

        ``ABSENT`` where there is no regular file.
        """
        if path.endswith(LISTING):
            return _listing(path)
        try:
            return self.of_found(path, os.stat(path))
        except (OSError, ValueError):
            return ABSENT

    def of_found(self, path: str, now: os.stat_result) -> str:
        """The same for a path that leads to a file of which the system says ``now``."""
        seen = identity(now)
        for remembered in (self._known, self._read_here):
            known = remembered.get(path)
            if known is not None and known[0] == seen:
                self._known[path] = self.used[path] = known
                return known[1]
        return self._read(path) if stat.S_ISREG(now.st_mode) else ABSENT

    def look_at_all(self, paths: Sequence[str]) -> list[tuple[Identity | None, str]]:
        """What the system says of many files, which are asked for in one call, and after that the content of each: a
        change in between shows in the next look."""
        looks: list[tuple[Identity | None, str]] = []
        for path, now in zip(paths, unpack(self._looker.look(Paths(paths))), strict=True):
            known = self._known.get(path)
            if known is not None and known[0] == now:
                self.used[path] = known
                looks.append(known)
            else:
                looks.append((None if now == NOTHING else now, self.of(path)))
        return looks

    def identity_of(self, path: str) -> Identity | None:
        """What the system says of the file; None where there is none."""
        try:
            return identity(os.stat(path))
        except (OSError, ValueError):
            return None

    def seen(self, path: str) -> Identity | None:
        """What the system said of a file whose content is remembered by that; None if it is not."""
        known = self._known.get(path)
        return known[0] if known is not None else None

    def seen_with(self, path: str, digest: str) -> Identity | None:
        """What the system said of a file when it had this content; None if that is not remembered."""
        known = self._known.get(path)
        return known[0] if known is not None and known[1] == digest else None

    def knows(self, path: str, seen: Identity) -> bool:
        """Whether the content that a file had as ``seen`` was read before."""
        known = self._known.get(path)
        return known is not None and known[0] == seen

    def _read(self, path: str) -> str:
        digest = _RecordDigest() if path.endswith(_RECORD) else hashlib.sha256()
        started = time.time_ns()
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0) as file:
                before = identity(os.fstat(file.fileno()))
                while piece := file.read(_PIECE):
                    digest.update(piece)
                after = identity(os.fstat(file.fileno()))
        except OSError:
            return ABSENT
        found = digest.hexdigest()
        if before == after and not changed_since(after, started):
            self._known[path] = self.used[path] = self._read_here[path] = (after, found)
        return found


class _RecordDigest:
    """Of the list of a package's files: without what differs from place to place, as scripts, compiled modules and what
    leads to the sources of an editable installation."""

    def __init__(self) -> None:
        self._text = b""

    def update(self, piece: bytes) -> None:
        self._text += piece

    def hexdigest(self) -> str:
        lines = (
            line for line in self._text.splitlines() if not line.startswith(b"..") and not _OF_A_PLACE.search(line)
        )
        return hashlib.sha256(b"\n".join(lines)).hexdigest()


def _listing(path: str) -> str:
    try:
        names = sorted(name for name in os.listdir(path) if not name.endswith(_BESIDE) and not name.startswith("."))
    except OSError:
        return ABSENT
    return hashlib.sha256("\0".join(names).encode(errors="surrogateescape")).hexdigest()


def bytes_digest(data: bytes) -> str:
    """The SHA-256 of ``data``."""
    return hashlib.sha256(data).hexdigest()
