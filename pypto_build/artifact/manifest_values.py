"""Values of manifest expressions, and the names, attributes and functions they may use."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any

from .records import ArgDirection

#: Characters of a text that a message shows.
_SHOWN = 100
_SHOWN_BITS = 64

#: Names that a module-level import may bind: dotted name -> the marker it stands for.
IMPORTABLE = {
    "pathlib": "pathlib",
    "pathlib.Path": "Path",
    "pathlib.PurePath": "Path",
    "pathlib.PurePosixPath": "Path",
    "os": "os",
    "os.path": "os",
}
#: Packages of simpler, from which a manifest takes ``ArgDirection``.
DIRECTION_ROOTS = ("simpler", "task_interface", "_task_interface", "simpler_setup")


class Entry(dict[str, Any]):
    """A dict of the manifest that remembers the line it starts on, for error messages."""

    line: int = 0


class PathText(str):
    """A path of the manifest, as text: a manifest names thousands, and only a few operations on them are read."""

    def __truediv__(self, other: str) -> PathText:
        return PathText(posixpath.join(self, other))

    @property
    def parent(self) -> PathText:
        """The directory it lies in."""
        return PathText(posixpath.dirname(self) or ".")

    @property
    def name(self) -> str:
        """Its last part."""
        return posixpath.basename(self)

    @property
    def stem(self) -> str:
        """Its last part without the ending."""
        return posixpath.splitext(self.name)[0]

    def ancestor(self, index: int) -> PathText:
        """`parents[index]`."""
        path = self
        for _ in range(index + 1):
            path = path.parent
        return path


class Symbol:
    """An imported name: a module, ``Path`` or ``ArgDirection``; only its known members can be used."""

    def __init__(self, name: str) -> None:
        self.name = name


#: simpler's ``ArgDirection``, however it is imported.
ARG_DIRECTION = Symbol("ArgDirection")


#: Functions a manifest may call; strings and paths in, strings or paths out, no file is touched.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "str": lambda value: str(value),
    "fspath": lambda value: str(value),
    "Path": lambda *parts: PathText(posixpath.join(*parts)),
    "join": lambda *parts: posixpath.join(*map(str, parts)),
    "dirname": lambda value: posixpath.dirname(str(value)),
    "abspath": lambda value: posixpath.normpath(str(value)),
    "realpath": lambda value: posixpath.normpath(str(value)),
    "normpath": lambda value: posixpath.normpath(str(value)),
}


def shown(value: object) -> str:
    """Return a value for a message.

    Nested values are cut off at a depth: lists that hold each other many times would be endless. Python refuses to
    write numbers of thousands of digits, so these are described.
    """
    if isinstance(value, (list, tuple, dict, set)):
        import reprlib  # only for a message

        short = reprlib.Repr()
        short.maxlevel = 2
        short.repr_int = lambda x, level: shown(x)  # type: ignore[method-assign]
        return short.repr(value)
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"a number of {value.bit_length()} bits"
    return repr(value) if not isinstance(value, str) or len(value) <= _SHOWN else f"{value[:_SHOWN]!r}..."


def symbol_member(owner: Symbol, attribute: str) -> Any:
    """The member ``attribute`` of an imported name; ``None`` if a manifest has no use for it."""
    if owner is ARG_DIRECTION:
        return ArgDirection.__members__.get(attribute)
    if owner.name == "simpler":
        return ARG_DIRECTION if attribute == "ArgDirection" else owner
    if owner.name == "os" and attribute == "path":
        return owner
    return Symbol("Path") if owner.name == "pathlib" and attribute in ("Path", "PurePath") else None
