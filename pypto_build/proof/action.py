"""Actions and their results: a command with all that its result depends on, and the record of what it wrote."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

#: Begins a name that is written as its bytes.
_BYTES = "{bytes}"
_NOWHERE = "/nowhere"
#: The directories of PATH, taken together.
_SEARCHED = "{PATH}"
#: The directories that the workspace lies in, taken together: a file of that name in none of them.
_ABOVE = "{above}"
_TOP = "{top}"
_OF_A_NAME = "_.+-"
#: Begins a word of a command line whose path is opened, and not told to what is made.
_OPENED = re.compile(r"(-[BIL]|-isystem|-iquote|-idirafter|-include|-imacros|--sysroot=|@)?/")
#: The flag that calls a directory by another name, which is text.
_MAP = re.compile(r"(-f(?:file|debug|macro)-prefix-map=/[^=]*)=([^=]*)\Z")
#: The flag of our tools behind which stands ``NAME=DIRECTORY``.
_NAMING = "--chip"

#: Part of every key: a new number makes all earlier results unknown.
SCHEMA = 4


@dataclass(frozen=True)
class Action:
    """One command and all facts about it before it runs.

    ``name`` is that of its record in its place. ``outputs`` are relative to the place; the command writes each under
    its name with ``.tmp`` behind it. With ``tree``, the outputs are all files that it leaves in that directory.
    ``settings`` decide besides the command, and are shown by their labels; ``unkeyed`` are words at the
    command's end that decide nothing. ``main`` is an input that the tool must be seen to read; if it is not, nothing
    is known of what it read. An action that is not ``shared`` stays out of the store.
    ``good`` are the exit statuses of a result that may stand for another run.
    ``prefix`` are the words of a launcher, which decides nothing. What lies in ``private`` directories is no input,
    nor are ``private`` files. The result of one that is ``assumed`` is kept where nothing can be watched, too: its
    declared inputs are all that it depends on. An action that is ``whole`` is a test: all processes
    that it starts are watched, in any environment. An action that is ``foreign`` executes the user's Python: a file
    whose status it asked for counts by its content. ``leaves`` is a file that has to be in the tree.
    """

    name: str
    argv: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    tree: str = ""
    leaves: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    unkeyed: tuple[str, ...] = ()
    main: str = ""
    good: tuple[int, ...] = (0,)
    python: bool = False
    shared: bool = True
    prefix: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    assumed: bool = False
    whole: bool = False
    foreign: bool = False

    def command(self, helpers: Sequence[Helper] = ()) -> list[str]:
        """Return the whole command line."""
        return [
            *self.prefix,
            self.argv[0],
            *(word for helper in helpers for word in helper.words),
            *self.argv[1:],
            *self.unkeyed,
        ]


@dataclass(frozen=True)
class Helper:
    """A file that only makes an action faster.

    Its own inputs (``contents``) count instead of the file; other files in its directory do not count. ``words`` are
    its part of the command. A ``needed`` helper cannot be left out: its content is linked.
    """

    path: str
    digest: str
    contents: tuple[InputSet, ...]
    words: tuple[str, ...]
    needed: bool = False


class InputSet(msgspec.Struct, frozen=True, array_like=True):
    """Files and their digests. Their names are relative to roots; units share common sets."""

    files: tuple[tuple[str, str], ...]

    def encode(self) -> bytes:
        """Return the set as bytes; equal sets give equal bytes."""
        return msgspec.msgpack.encode(self)


class Result(msgspec.Struct, array_like=True):
    """The result of one action: its own inputs by name, the sets of inputs that it was seen to read, and its outputs.

    A result without ``good`` says that the action failed on these inputs, so an earlier good result no longer counts. A
    result whose outputs name directories of the machine lists them in ``located``; it is valid only with these
    directories.
    """

    key: str
    declared: dict[str, str]
    settings: dict[str, str]
    words: str
    sets: tuple[str, ...]
    outputs: dict[str, str]
    printed: str = ""
    good: bool = True
    located: dict[str, str] = {}


class Roots:
    """The directories that names in keys and records are relative to, so that names are equal in every workspace.

    ``searched`` is the PATH by which tools find other programs. Keys name the programs themselves, not PATH.
    """

    def __init__(self, roots: Mapping[str, str | Path], searched: str = "") -> None:
        self._searched = dict.fromkeys(filter(os.path.isabs, searched.split(os.pathsep)))
        pairs = [(str(path), f"{{{name}}}") for name, path in roots.items()]
        self._roots = sorted(pairs, key=lambda pair: -len(pair[0]))
        self._pairs = [(_escaped(path), token) for path, token in self._roots]
        self._places = {token: path for path, token in pairs}
        parents = Path(self._places.get(_TOP, os.sep)).parents
        self._above = [os.path.join(directory, "") for directory in map(str, parents) if directory != os.sep]
        self._named: dict[str, str] = {}  # arguments, of which many commands have most in common
        self._names: dict[str, str] = {}  # of the paths that were asked for: most are so several times

    def name(self, path: str) -> str:
        """Return ``path`` relative to its root; a path that is not text is named by its bytes."""
        name = self._names.get(path)
        if name is None:
            name = self._names[path] = self._name(path)
        return name

    def _name(self, path: str) -> str:
        if plain(path) != path:
            return _BYTES + os.fsencode(path).hex()
        for root, token in self._roots:
            if path.startswith(root) and (len(path) == len(root) or path[len(root)] == "/"):
                return token + path[len(root) :]
        return path

    def searches(self, executed: Iterable[str]) -> dict[str, str]:
        """Return the programs that a tool found by a search of PATH, by name; ``executed`` are the paths of all
        executed programs.
        """
        pairs = (os.path.split(path) for path in executed)
        searched = [(directory, program) for directory, program in pairs if self._is_searched(directory)]
        programs = {program: os.path.join(directory, program) for directory, program in searched}
        return {program: path for program, path in programs.items() if self._program_on_path(program) == path}

    def name_searched(self, program: str) -> str:
        """Return the name in records of a program that a search of PATH finds."""
        return self.name(f"{_SEARCHED}/{program}")

    def names_looked_for(self, there: Container[str], absent: Container[str], paths: Iterable[str]) -> set[str]:
        """Return the names of programs for which a tool may have searched PATH by itself.

        ``paths`` are the files that it looked for. A program counts if the tool saw the first file on PATH that is
        ``there``, and missed all before it (``absent``). Another PATH may lead to another program.
        """
        names = set()
        for program in {os.path.basename(path) for path in paths if self._is_searched(os.path.dirname(path))}:
            candidates = (os.path.join(directory, program) for directory in self._searched)
            first = next((path for path in candidates if path not in absent), "")
            if not first or first in there:
                names.add(self.name_searched(program))
        return names

    def _is_searched(self, directory: str) -> bool:
        return directory in self._searched

    def names_missed(self, path: str, searches: Container[str]) -> set[str]:
        """Return the names of a file that a tool missed.

        A program that the tool found by a search of PATH (``searches``) is named by that search. A file above the
        workspace gets a second name, which means that no directory above the workspace has it. So a workspace elsewhere
        takes no result that holds only where nothing lies above.
        """
        directory, program = os.path.split(path)
        if self._is_searched(directory) and program in searches:
            return {self.name_searched(program)}
        name = self.name(path)
        above = next((directory for directory in self._above if path.startswith(directory)), None)
        if name != path or above is None:  # it is told by a root
            return {name}
        beside = f"{_ABOVE}/{path[len(above) :]}"
        return {name} if os.access(self.path(beside), os.F_OK) else {name, beside}

    def holds(self, path: str) -> bool:
        """Return whether one of the root directories lies in ``path``."""
        inside = os.path.join(path, "")
        return any(root.startswith(inside) for root, _ in self._roots)

    def _nearest_above(self, rest: str) -> str:
        """Return the file of that name in the nearest directory above the workspace that has one."""
        paths = (directory + rest for directory in self._above)
        return next((path for path in paths if os.access(path, os.F_OK)), _NOWHERE)

    def _program_on_path(self, program: str) -> str:
        """Return the file that a search of PATH finds for ``program``."""
        for directory in self._searched:
            path = os.path.join(directory, program)
            if os.access(path, os.X_OK) and os.path.isfile(path):
                return path
        return _NOWHERE

    def word(self, word: str) -> str:
        """Return ``word`` with every root replaced by its name, and with doubled braces elsewhere."""
        named = _escaped(word)
        for root, token in self._pairs:
            if root in named:
                named = _with_name(named, root, token)
        return named

    def words(self, argv: Sequence[str]) -> list[str]:
        """Return the words of a command line. A root is replaced by its name only if the word's directory is opened.
        A path that a program gets as text, as by ``-DROOT="/w"``, may matter by its length.
        """
        named, word = self._named, self._argument
        words = [named[each] if each in named else word(each) for each in argv]
        if _NAMING in argv:
            for number, before in enumerate(argv[:-1], 1):
                words[number] = self.word(argv[number]) if before == _NAMING else words[number]
        return words

    def _argument(self, word: str) -> str:
        if _OPENED.match(word):
            named = self.word(word)
        elif map_ := _MAP.match(word):
            named = f"{self.word(map_[1])}={_escaped(map_[2])}"
        else:
            named = _escaped(word)
        self._named[word] = named
        return named

    def path(self, name: str) -> str:
        """Return the path of ``name`` in this workspace; a name with an unknown root gives a path that does not
        exist.
        """
        if name.startswith(_BYTES):
            path = _from_bytes(name[len(_BYTES) :])
        elif name.startswith(_SEARCHED):
            path = self._program_on_path(name[len(_SEARCHED) + 1 :])
        elif name.startswith(_ABOVE):
            path = self._nearest_above(name[len(_ABOVE) + 1 :])
        elif name.startswith("{"):
            token, brace, rest = name.partition("}")
            path = self._places.get(token + brace, _NOWHERE) + rest
        else:
            path = name
        return _NOWHERE if "\0" in path else path

    def is_fixed(self, name: str) -> bool:
        """Return True if ``name`` always stands for the same path here; a name that a search resolves does not."""
        return not name.startswith((_SEARCHED, _ABOVE))

    def named_in(self, contents: Iterable[bytes]) -> dict[str, str]:
        """Return the root directories, by name, whose paths occur in ``contents``."""
        contents = list(contents)
        return {token: root for root, token in self._roots if any(root.encode() in data for data in contents)}

    def agree(self, places: Mapping[str, str]) -> bool:
        """Return True if every root in ``places``, a path by the name of the root, has the same directory in this
        workspace.
        """
        return all(self._places.get(token) == root for token, root in places.items())

    @property
    def all(self) -> dict[str, str]:
        """Return every root directory by its name."""
        return dict(self._places)


def _escaped(text: str) -> str:
    """Return ``text`` escaped so that no part of it looks like the name of a root."""
    return text.replace("{", "{{") if "{" in text else text


def _with_name(word: str, root: str, token: str) -> str:
    """Return ``word`` with ``token`` for ``root``, except where ``root`` is the beginning of a longer file name."""
    if word.startswith(root) and word.find(root, 1) < 0:
        following = word[len(root) : len(root) + 1]
        longer = following.isalnum() or (following and following in _OF_A_NAME)
        return word if longer else token + word[len(root) :]
    first, *others = word.split(root)
    ends = (not rest or not (rest[0].isalnum() or rest[0] in _OF_A_NAME) for rest in others)
    return first + "".join((token if end else root) + rest for end, rest in zip(ends, others, strict=True))


def _from_bytes(digits: str) -> str:
    try:
        return os.fsdecode(bytes.fromhex(digits))
    except ValueError:
        return _NOWHERE


def plain(text: str) -> str:
    """Return ``text`` as valid Unicode: undecodable bytes are escaped."""
    return text if text.isascii() else text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def digest_words(words: Sequence[str]) -> str:
    """Return a digest of words in their order."""
    try:
        data = msgspec.msgpack.encode(words)
    except UnicodeEncodeError:  # bytes that no encoding explains; else all words are plain
        data = msgspec.msgpack.encode(list(map(plain, words)))
    return hashlib.sha256(data).hexdigest()


def make_key(words: str, settings: Mapping[str, str], declared: Mapping[str, str]) -> str:
    """Return the key of an action. ``words`` is the digest of its command, ``declared`` the digests of its declared
    inputs by name.
    """
    parts = (
        SCHEMA,
        words,
        sorted(settings.items()),
        sorted(declared.items()),
    )
    return hashlib.sha256(msgspec.msgpack.encode(parts)).hexdigest()
