"""What of SCons the rules use, as types: SCons itself has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Node(Protocol):
    """A file, or an alias, in SCons' graph."""

    name: str

    def get_abspath(self) -> str:
        """Where the file is."""


Nodes = Sequence[Node]


class Environment(Protocol):
    """A construction environment."""

    def __getitem__(self, variable: str) -> Any:
        """The value of a construction variable."""

    def Replace(self, **variables: object) -> None:
        """Set construction variables."""

    def AddMethod(self, function: object, name: str) -> None:
        """Make a function a method of this environment."""

    def File(self, path: str) -> Node:
        """The node of a file."""

    def Alias(self, name: str, sources: object = (), action: object = None, **variables: object) -> Nodes:
        """The nodes of a target that is no file."""

    def Command(self, targets: object, sources: object, action: object, **variables: object) -> Nodes:
        """The nodes that an action makes."""

    def AlwaysBuild(self, nodes: object) -> Nodes:
        """Have nodes built whatever SCons thinks of them."""

    def Precious(self, nodes: object) -> None:
        """Have files stay as they are until their action replaces them."""

    def AddPostAction(self, node: object, action: object) -> None:
        """Have something done once a node has been built."""

    def Default(self, nodes: object) -> None:
        """What is built when nothing is named."""
