"""Queries of a tool about a file besides its content: the path and the query, and the current answer.

Answers contain only what is equal for all users of a store: type, size, and the owner's permissions. They leave out
times, owners, and the permissions of others, which follow from the umask.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable

_MARK = "//"
#: The answer of `stat`; of `lstat` and `readlink`; the resolved path; all names in a directory; a program's calls;
#: extended attributes. A digit asks for access.
STATUS, LINK, REAL, NAMES, CALLS, ATTRIBUTES = _MARK, "//@", "//~", "//*", "//!", "//="
#: Behind a question of a tool of ours, which decides nothing by the size of a file that it does not read.
NO_SIZE = "?"
#: The bits of a mode that count.
OWNERS = 0o7700

_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
_PHRASES = {
    "": "type, permissions or size of {}",
    "@": "the link {}",
    "~": "what {} leads to",
    "*": "files in {}",
    "=": "extended attributes of {}",
}
# The beginning of those attributes that every user may set; the system's own differ from place to place.
_OF_USER, _NONE = "user.", "none"


def is_question(path: str) -> bool:
    """Return whether a path or name is a question, marked by two consecutive slashes."""
    return _MARK in path


def is_absent(path: str) -> bool:
    """Return whether ``path`` does not exist; False for any other error."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        pass
    return False


def subject(question: str) -> str:
    """Return the path that a question is about."""
    return question.rpartition(_MARK)[0]


def phrase(question: str) -> str:
    """Return the subject of a question as words for users."""
    path, _, kind = question.rpartition(_MARK)
    return _PHRASES.get(kind.removesuffix(NO_SIZE), "access to {}").format(path)


def status(mode: int, size: int) -> str:
    """Return the answer for a file with this mode."""
    kind = _TYPES.get(stat.S_IFMT(mode), f"{stat.S_IFMT(mode):o}")
    return f"{kind} {mode & OWNERS:o} {size}" if kind == "file" else f"{kind} {mode & OWNERS:o}"


def without_size(answer_: str) -> str:
    """Return a status answer without the file's size."""
    return answer_.rpartition(" ")[0] if answer_.startswith("file ") else answer_


def access(error: int) -> str:
    """Return the answer to an access query that ended with this error number."""
    return "no" if error else "yes"


def failure(error: int) -> str:
    """Return the answer to a query that the system refused with this error number."""
    return f"error {error}"


def answer(question: str, name: Callable[[str], str] = str, real: dict[str, str] | None = None) -> str:
    """Return the current answer, with directories replaced by ``name``. ``real`` caches resolved directories."""
    if question.endswith(NO_SIZE):
        return without_size(answer(question.removesuffix(NO_SIZE), name, real))
    path, _, kind = question.rpartition(_MARK)
    try:
        if kind.isdigit():
            return access(not os.access(path, int(kind)))
        if kind == REAL.removeprefix(_MARK):
            return name(_real_path(path, {} if real is None else real))
        if kind == NAMES.removeprefix(_MARK):
            return _names(path)
        if kind == ATTRIBUTES.removeprefix(_MARK):
            return _attributes(path)
        now = os.stat(path) if question.endswith(STATUS) else os.lstat(path)
        return f"link {name(os.readlink(path))}" if stat.S_ISLNK(now.st_mode) else status(now.st_mode, now.st_size)
    except OSError as error:
        return failure(error.errno or 0)
    except ValueError:
        return failure(0)


def _names(path: str) -> str:
    """Return all names in a directory, with the types that the system reports beside them."""
    with os.scandir(path) as entries:
        names = sorted(f"{each.name}\0{each.is_symlink()}{each.is_dir(follow_symlinks=False)}" for each in entries)
    return hashlib.sha256("\0".join(names).encode(errors="surrogateescape")).hexdigest()


def _attributes(path: str) -> str:
    """Return the extended attributes of a file that the owner may set."""
    try:
        names = [name for name in sorted(os.listxattr(path)) if name.startswith(_OF_USER)]
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        names = []
    return " ".join(f"{name}={os.getxattr(path, name).hex()}" for name in names) or _NONE


def _real_path(path: str, directories: dict[str, str]) -> str:
    directory, name = os.path.split(path)
    if name in ("", os.curdir, os.pardir):
        return os.path.realpath(path, strict=True)
    if directory not in directories:
        directories[directory] = os.path.realpath(directory, strict=True)
    there = os.path.join(directories[directory], name)
    return os.path.realpath(there, strict=True) if stat.S_ISLNK(os.lstat(there).st_mode) else there
