"""Converts files that attributes name to SCons nodes, and finds the builders that make them.

An attribute accepts a string or a path, a node, the list that a builder returns, or the result of one of our rules. A
path is relative to the directory of the SConscript, or to the top with ``#``; variables in it are replaced.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import SCons.Node
import SCons.Node.Alias
import SCons.Node.FS
from SCons.Errors import UserError
from SCons.Script import GetOption

from pypto_build.rules.machinery.scons_types import Environment, Node

# The attribute of a node by which a rule says which directory its result stands for.
_STANDS_FOR = "pypto_stands_for"
#: The attribute of a node that a rule of ours makes.
MADE_BY_US = "pypto_makes"
# In ``noclean`` of a node: SCons leaves it to ``clean_outputs``. NoClean() of a user sets 1.
_LEFT_TO_US = 2
# SCons' number of the decision that compares a node's signature with the one that was stored.
_BY_SIGNATURE = 1


class RuleError(Exception):
    """A rule was called with an invalid attribute. ``str()`` is one line."""


class Kind(Enum):
    """The kind of file that an attribute names; the value is its description for users."""

    FILE = "file"
    DIRECTORY = "directory"
    FILES = "list of files"
    DIRECTORIES = "list of directories"

    @property
    def is_list(self) -> bool:
        """Return whether the attribute names several."""
        return self in (Kind.FILES, Kind.DIRECTORIES)

    @property
    def is_directory(self) -> bool:
        """Return whether the attribute names directories."""
        return self in (Kind.DIRECTORY, Kind.DIRECTORIES)


def is_path(value: object) -> bool:
    """Return whether a value of an attribute is a path in text."""
    return isinstance(value, (str, os.PathLike))


def stands_for(nodes: Iterable[Node], directory: Node) -> None:
    """Make ``nodes``, the result of a rule, represent ``directory`` in attributes that name a directory."""
    for node in nodes:
        setattr(node.attributes, _STANDS_FOR, directory)


class _MadeDirectory(SCons.Node.FS.Dir):  # type: ignore[misc]
    """A directory that a rule makes as a whole: it has changed if the content of one of its files has.

    SCons takes a directory as changed whenever one of its builders ran, and our builders always run.
    """

    __slots__ = ()
    NodeInfo = SCons.Node.FS.FileNodeInfo  # which is stored with a signature

    def get_found_includes(self, env: Environment, scanner: Any, path: Any) -> list[Node]:
        """Return nothing: the signature covers all files. SCons' scanner finds only files that already have nodes."""
        return []

    def get_csig(self) -> str:
        """Return a digest of the names and the contents of all files below."""
        signature: str = self.get_ninfo().csig
        return signature

    def get_ninfo(self) -> Any:
        """Return the data that SCons stores for dependents, always with the signature, which SCons clears."""
        info = super().get_ninfo()
        if not hasattr(info, "csig"):
            top = self.get_abspath()
            paths = sorted(os.path.join(directory, name) for directory, _, names in os.walk(top) for name in names)
            content = "\0".join([*paths, *self.attributes.file_digests(paths)])
            info.csig = hashlib.sha256(os.fsencode(content)).hexdigest()
        return info


def directory_to_make(env: Environment, path: Path, file_digests: Callable[[Sequence[str]], list[str]]) -> Any:
    """Return the node of a directory that a rule makes whole; ``file_digests`` returns the contents of its files."""
    node: Any = env.Dir(str(path).replace("$", "$$"))
    node.__class__ = _MadeDirectory
    node.attributes.file_digests = file_digests
    node.changed_since_last_build = _BY_SIGNATURE
    return node


def leave_to_cleaning(nodes: Iterable[Node]) -> None:
    """Leave the removal of a rule's files to ``clean_outputs``, unless a user calls NoClean()."""
    for node in nodes:
        node.noclean = _LEFT_TO_US


def kept_by_users() -> list[Node]:
    """Return the nodes with a builder that a user called NoClean() on."""
    return [node for node in _made() if node.noclean not in (0, _LEFT_TO_US)]


def as_node(env: Environment, value: Any, kind: Kind, where: str, doc: str) -> Node:
    """Return the node of the one file or directory that ``value`` names.

    Raises:
        RuleError: it names none, several, or one of the other kind.
    """
    nodes = list(_nodes(env, value, kind, where, doc))
    if len(nodes) > 1 and kind.is_directory:
        nodes = _common_directory(env, nodes)
    if len(nodes) != 1:
        raise RuleError(
            f"{where}: {len(nodes)} nodes, but exactly one {kind.value} is expected; the attribute is {doc}"
        )
    node = _checked(env, nodes[0], kind, where, doc)
    if kind.is_directory and has_rule(node) and not getattr(node.attributes, MADE_BY_US, False):
        what = f"'{node}' is a directory that a builder makes, and SCons does not update such a directory after an edit"
        raise RuleError(f"{where}: {what}; declare the files in it as the builder's targets")
    return node


def as_nodes(env: Environment, value: Any, kind: Kind, where: str, doc: str) -> tuple[Node, ...]:
    """Return the nodes of the files or directories that ``value`` names, in its order.

    Raises as ``as_node``. If directories are expected, files are replaced by their common directories.
    """
    nodes = list(_nodes(env, value, kind, where, doc))
    checked = list(dict.fromkeys(_checked(env, node, kind, where, doc) for node in nodes))
    if not kind.is_directory:
        return tuple(checked)
    named = {node for node in nodes if isinstance(node, SCons.Node.FS.Dir)}  # not just the place of a file
    return tuple(
        node for node in checked if node in named or not any(node.is_under(one) for one in checked if one is not node)
    )


def path_of(node: Any) -> Path:
    """Return the path of a node's file or directory; a path in a variant directory only if the file is made or
    copied there.
    """
    if isinstance(node, SCons.Node.FS.Dir):
        source = node.srcnode()
        here = source is node or has_rule(node) or os.path.isdir(node.get_abspath())
        return Path((node if here else source).get_abspath())
    if has_rule(node):  # SCons memoizes there what it will store of it
        return Path(node.get_abspath())
    path = Path(node.rfile().get_abspath())
    node.clear_memoized_values()  # whether it exists: it may be made later
    return path


def has_rule(node: Any) -> bool:
    """Return True if a builder makes a node. SCons's own builder of each directory, which only creates it, does not
    count.
    """
    builder = getattr(node, "builder", None)  # what is neither a file nor a directory yet has none
    return builder is not None and builder is not SCons.Node.FS.MkdirBuilder


def makers(node: Node) -> list[Node]:
    """Return the nodes with a builder that make a file or directory; empty for a source.

    These are the node itself, a directory above it, or the files in it that SCons has nodes for.
    """
    return makers_above(node) or list(_made_below(node))


def makers_above(node: Node) -> list[Node]:
    """Return the node itself if a builder makes it, else the directory above it that a builder makes whole."""
    above: Any = node
    while above is not None:
        if has_rule(above):
            return [above]
        above = above.up() if isinstance(above, SCons.Node.FS.Dir) else above.dir
    return []


def forget(directory: Node) -> None:
    """Make SCons read the entries of a built directory again."""
    for entry in _entries(directory):
        if not has_rule(entry):
            entry.clear_memoized_values()
            forget(entry)


def searched(directory: Node) -> tuple[Path, ...]:
    """Return the paths of a header directory: two for a directory with a variant directory."""
    places = (directory, directory.srcnode())
    return tuple(Path(node.get_abspath()) for node in dict.fromkeys(places))


def all_made() -> list[Node]:
    """Return the files and directories below the top that declared builders make."""
    return list(_made())


def is_hidden(node: Node) -> bool:
    """Return True if a node of our rules exists only for ordering and is not a file."""
    return (
        bool(getattr(node.attributes, MADE_BY_US, False))
        and not isinstance(node, SCons.Node.FS.Dir)
        and (
            node.name.startswith(".")
            or isinstance(node, SCons.Node.Alias.Alias)
            or node.dir.name.startswith("programs.")
        )
    )


def made_by_users() -> list[Node]:
    """Return the files below the top that users' builders make, as far as the scripts have declared them."""
    return [node for node in _made() if not getattr(node.attributes, MADE_BY_US, False)]


def is_reached(node: Any) -> bool:
    """Return True if a target of the command needs a node, or an entry below the node."""
    return node.get_state() != SCons.Node.no_state or any(map(is_reached, _entries(node)))


def create_directories() -> None:
    """Create the directories of artifacts, and of files that users' builders make, as SCons does before building them.

    An artifact may look for headers there; a test that lists the directory above would run again.
    """
    for node in _made():  # a target of a user is an entry until it is there
        if isinstance(node, SCons.Node.FS.Dir) == getattr(node.attributes, MADE_BY_US, False):
            os.makedirs(os.path.dirname(node.get_abspath()), exist_ok=True)


def made_directories() -> list[Node]:
    """Return the directories below the top that builders make."""
    return [node for node in _made() if isinstance(node, SCons.Node.FS.Dir)]


def order_files() -> None:
    """Make files in built directories depend on the sources of these directories.

    SCons lets such a directory depend on its files.
    """
    for directory in made_directories():
        for node in _files_below(directory):
            node.clear_memoized_values()
            node.add_dependency(directory.sources)
            if GetOption("no_exec"):  # else what is made from a file that is not there yet would be an error
                node.side_effect, node.noclean = 1, 1


def _files_below(directory: Node) -> Iterator[Any]:
    for entry in _entries(directory):
        if isinstance(entry, SCons.Node.FS.Dir):
            yield from _files_below(entry)
        elif not has_rule(entry):
            yield entry


def check_installed() -> None:
    """Raise for a target without a file that a user installs, on which SCons would end in a traceback."""
    installing = sys.modules.get("SCons.Tool.install")
    for target in installing._INSTALLED_FILES if installing else ():
        for source in target.sources:
            if isinstance(source, SCons.Node.Alias.Alias):
                raise RuleError(
                    f"Install: '{source}' is a target without a file; install the verdict files of the tests instead"
                )


def sources_of_all() -> list[Path]:
    """Return the source files, made by no builder, of users' builders and our rules."""
    sources = {source for node in _made() for source in node.all_children(scan=0)}
    return [path_of(node) for node in sources if isinstance(node, SCons.Node.FS.File) and not makers(node)]


def _made() -> Iterator[Node]:
    return _made_below(SCons.Node.FS.get_default_fs().Top)


def _made_below(directory: Node) -> Iterator[Node]:
    for entry in _entries(directory):
        if has_rule(entry):
            yield entry
        else:
            yield from _made_below(entry)


def _entries(node: Any) -> list[Any]:
    """Return the entries of a directory that SCons knows; none for a file."""
    if not isinstance(node, SCons.Node.FS.Dir):
        return []
    return [entry for name, entry in list(node.entries.items()) if name not in (os.curdir, os.pardir)]


def _nodes(env: Environment, value: Any, kind: Kind, where: str, doc: str) -> Iterator[Node]:
    if isinstance(value, SCons.Node.Node):
        meant = getattr(value.attributes, _STANDS_FOR, None) if kind.is_directory else None
        yield meant or value
        return
    if isinstance(value, (list, tuple)) or type(value).__name__ in ("NodeList", "UserList"):
        yield from dict.fromkeys(node for one in value for node in _nodes(env, one, kind, where, doc))
        return
    if not is_path(value):
        raise RuleError(f"{where}={value!r} is not a {kind.value}, given as text, path or node; the attribute is {doc}")
    text = os.fspath(value)
    make: Any = env.Dir if kind.is_directory else env.File
    try:
        yield make(text)
    except (TypeError, UserError):
        raise RuleError(f"{where}={text!r} is not a {kind.value}; the attribute is {doc}") from None


def _common_directory(env: Environment, nodes: list[Node]) -> list[Node]:
    """Return the single directory among ``nodes``, or the directory that contains all of them."""
    directories = [node for node in nodes if isinstance(node, SCons.Node.FS.Dir)]
    if len(directories) == 1 and all(node is directories[0] or node.is_under(directories[0]) for node in nodes):
        return directories
    if directories:
        return nodes
    common = os.path.commonpath([os.path.dirname(node.get_abspath()) for node in nodes])
    return [env.fs.Dir(common)]


def _checked(env: Environment, node: Any, kind: Kind, where: str, doc: str) -> Node:
    if type(node) is SCons.Node.FS.Entry:
        if kind.is_directory and _may_be_directory(node):
            if has_rule(node):  # SCons would forget who makes it
                return node  # type: ignore[no-any-return]
            node = node.fs.Dir(node.get_abspath())
        else:
            node = node.disambiguate()
    node_type = SCons.Node.FS.Dir if kind.is_directory else SCons.Node.FS.File
    if kind.is_directory and isinstance(node, SCons.Node.FS.File):
        node = node.dir
    if not isinstance(node, node_type):
        what = "an alias" if isinstance(node, SCons.Node.Alias.Alias) else "a directory"
        raise RuleError(f"{where}: {node} is {what}, but a {kind.value} is expected; the attribute is {doc}")
    return node  # type: ignore[no-any-return]


def _may_be_directory(entry: Node) -> bool:
    """Return True if an existing node is a directory; the name of a missing one decides."""
    path = entry.get_abspath()
    return os.path.isdir(path) or not (os.path.exists(path) or os.path.splitext(path)[1])
