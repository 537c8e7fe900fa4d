"""Notices of saved files from the system (inotify), so that not all files have to be looked at again and again.

The system gives no notice of changes that another machine makes, or that come through a memory mapping, and the number
of watches of a user is limited. So users of this module also look at the files from time to time.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
from contextlib import suppress
from functools import cache
from pathlib import Path

_EVENT = struct.Struct("iIII")
_BYTES = 1 << 16
_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x40, 0x80, 0x100, 0x200, 0x400, 0x800
_UNMOUNT, _OVERFLOW, _IGNORED, _IS_DIRECTORY = 0x2000, 0x4000, 0x8000, 0x40000000
_WANTED = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
# After these events the saved file is complete.
_DONE = _CLOSE_WRITE | _MOVED_TO | _MOVED_FROM | _DELETE
# After these it takes a look to know what is there.
_UNCLEAR = _UNMOUNT | _OVERFLOW | _IGNORED | _IS_DIRECTORY | _DELETE_SELF | _MOVE_SELF
# File systems whose files others change, of whom this system knows nothing.
_OF_OTHERS = (
    "nfs",
    "cifs",
    "smb",
    "9p",
    "fuse",
    "virtiofs",
    "vboxsf",
    "afs",
    "ceph",
    "lustre",
    "gluster",
    "gfs",
    "ocfs",
)


class Notices:
    """Notices about directories and files, from the time they were added."""

    def __init__(self) -> None:
        """Open the system's interface. Raises `OSError` where it has none."""
        self._descriptor = _init()
        self._paths: dict[int, tuple[str, bool]] = {}  # by the number of the watch; whether it is of a directory

    def add(self, path: str, is_directory: bool) -> None:
        """Ask for notices about a file, or about all files in a directory. Raises `OSError` where the system gives
        none.
        """
        if _is_of_others(path):
            raise OSError(f"{path}: the system is not told of all changes")
        number = _add(self._descriptor, path)  # the same for another name of the same file
        self._paths[number] = "" if number in self._paths else path, is_directory

    def close(self) -> None:
        """Stop the notices."""
        os.close(self._descriptor)

    def wait(self, seconds: float) -> News:
        """Return the next notices; none after so many seconds."""
        news = News()
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        data = os.read(self._descriptor, _BYTES) if ready else b""
        while data:
            number, mask, _, size = _EVENT.unpack_from(data)
            name, data = data[_EVENT.size : _EVENT.size + size].rstrip(b"\0"), data[_EVENT.size + size :]
            path, of_directory = self._paths.get(number, ("", False))
            if mask & _UNCLEAR or not path or (of_directory and not name):
                news.unclear = True
            news.paths[os.path.join(path, os.fsdecode(name)) if name else path] = bool(mask & _DONE)
        return news


class News:
    """Paths of files that may have changed, each with True if no process is still writing; ``unclear`` if some are
    unknown.
    """

    def __init__(self) -> None:
        self.paths: dict[str, bool] = {}
        self.unclear = False

    def __bool__(self) -> bool:
        return self.unclear or bool(self.paths)

    @property
    def done(self) -> bool:
        """Return True if all changed files are completely written."""
        return not self.unclear and all(self.paths.values())


def _is_of_others(path: str) -> bool:
    """Return True for a file system that other machines may write to."""
    return _file_systems().get(os.stat(path).st_dev, "").startswith(_OF_OTHERS)


@cache
def _file_systems() -> dict[int, str]:
    """The kinds of the file systems that are mounted, by the numbers of their devices."""
    kinds = {}
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines():
            place, _, source = line.partition(" - ")
            major, minor = place.split()[2].split(":")
            kinds[os.makedev(int(major), int(minor))] = source.split()[0]
    return kinds


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _init() -> int:
    if not hasattr(_library(), "inotify_init1"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return _checked("inotify", _library().inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))


def _add(descriptor: int, path: str) -> int:
    return _checked(path, _library().inotify_add_watch(descriptor, os.fsencode(path), _WANTED))


def _checked(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result
