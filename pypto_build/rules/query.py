"""``scons query EXPRESSION``: answers questions about the graph: sources of a target, targets of a file.

The graph is that of SCons, as a build would find it now. Files that do not exist yet are in it, with their makers.
"""

from __future__ import annotations

import difflib
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import SCons.Node.Alias
import SCons.Node.FS
from SCons.Action import Action

from pypto_build import terminal
from pypto_build.replay.verdict import EXIT_STATUS
from pypto_build.rules.machinery.deferred import QUERY
from pypto_build.rules.machinery.inputs import all_made, has_rule, is_hidden, makers_above
from pypto_build.rules.machinery.scons_types import Environment, Node, Nodes
from pypto_build.rules.machinery.workspace import workspace_of
from pypto_build.rules.options import OptionError
from pypto_build.rules.targets import TARGETS

VERB = "query"
_TOKEN = re.compile(r"\s*('[^']*'|\"[^\"]*\"|[(),+^]|-(?![\w./])|[^\s(),+^]+)")
_OPERATORS = {"+": "union", "-": "except", "^": "intersect"}
_ARGUMENTS = {"deps": "deps(X[, DEPTH])", "rdeps": "rdeps(X) or rdeps(WITHIN, X)", "somepath": "somepath(FROM, TO)"}
_ARGUMENTS["kind"] = "kind(PATTERN, X)"
_KINDS = {".so": "library", ".o": "object", ".json": "result"}


def declare_query(env: Environment, expression: str) -> None:
    """Declare the target that answers ``expression`` after all scripts have been read."""
    workspace_of(env).extras[QUERY] = True
    env.AlwaysBuild(env.Alias(VERB, [], Action(_answer, None), PYPTO_QUERY=expression))


def _answer(target: Nodes, source: Nodes, env: Environment) -> int:
    try:
        if not env["PYPTO_QUERY"].strip():
            raise OptionError("query: an expression is missing; try: scons query 'deps(NAME)'")
        graph = Graph(env)
        names = Query(graph, env["PYPTO_QUERY"]).answer()
    except OptionError as error:
        terminal.complain(f"scons: *** {error}")
        return EXIT_STATUS["usage_error"]
    terminal.say(*_FORMATS[workspace_of(env).options["FORMAT"]](graph, names))
    return 0


class Graph:
    """Targets and files by name, with their dependencies; nodes that exist only for ordering are left out."""

    def __init__(self, env: Environment) -> None:
        self._workspace = workspace_of(env)
        self._tests = env["PYPTO_REPLAYS"].tags
        self._suites = env["PYPTO_REPLAYS"].suites
        self.nodes: dict[str, Node] = {}
        self.deps: dict[str, list[str]] = {}
        aliases = [node for name, node in SCons.Node.Alias.default_ans.items() if name not in TARGETS or node.sources]
        waiting: list[Node] = [*aliases, *all_made()]
        seen: set[Node] = set()
        while waiting:
            node = waiting.pop()
            if node in seen or is_hidden(node):
                continue
            seen.add(node)
            children = list(dict.fromkeys(_children(node)))
            name = self.name(node)
            self.nodes[name] = node
            self.deps[name] = sorted(map(self.name, children))
            waiting += children
        self.rdeps: dict[str, list[str]] = {}
        for name, deps in self.deps.items():
            for dep in deps:
                self.rdeps.setdefault(dep, []).append(name)

    def name(self, node: Node) -> str:
        """Return the name of a target, or the path of a file."""
        if isinstance(node, SCons.Node.Alias.Alias):
            return str(node)
        return self._workspace.short_of_top(Path(node.get_abspath()))

    def kind(self, name: str) -> str:
        """Return the kind of a node, in a word or two."""
        node = self.nodes[name]
        if isinstance(node, SCons.Node.Alias.Alias):
            return "test" if name in self._tests else "suite" if name in self._suites else "target"
        if not makers_above(node):
            return "directory" if isinstance(node, SCons.Node.FS.Dir) else "source file"
        if isinstance(node, SCons.Node.FS.Dir):
            return "generated directory"
        return _KINDS.get(os.path.splitext(name)[1], "generated file")

    def reach(self, names: Iterable[str], edges: dict[str, list[str]], depth: int | None = None) -> list[str]:
        """Return ``names`` and all nodes that ``edges`` lead to from them."""
        reached = dict.fromkeys(names)
        level = list(reached)
        while level and (depth is None or depth > 0):
            level = [n for n in dict.fromkeys(d for name in level for d in edges.get(name, ())) if n not in reached]
            reached |= dict.fromkeys(level)
            depth = None if depth is None else depth - 1
        return list(reached)

    def path(self, start: Iterable[str], ends: Iterable[str]) -> list[str]:
        """Return a shortest path along dependencies; empty if there is none."""
        goal, came = set(ends), dict[str, str | None](dict.fromkeys(start))
        waiting = deque(came)
        while waiting:
            name = waiting.popleft()
            if name in goal:
                path: list[str] = []
                step: str | None = name
                while step is not None:
                    path.insert(0, step)
                    step = came[step]
                return path
            for dep in self.deps.get(name, ()):
                if dep not in came:
                    came[dep] = name
                    waiting.append(dep)
        return []


def _children(node: Node) -> Iterator[Node]:
    """Return the dependencies of a node. SCons lets a directory depend on its files, so the makers of a directory
    count as those of its files.
    """
    if isinstance(node, SCons.Node.FS.Base) and not has_rule(node):
        yield from makers_above(node)
    children = node.children()
    whole = {node, *children}
    for child in children:
        if is_hidden(child):
            yield from _children(child)
        elif isinstance(child, SCons.Node.Alias.Alias) or has_rule(child) or whole.isdisjoint(makers_above(child)):
            yield child


class Query:
    """An expression: names, ``deps``, ``rdeps``, ``somepath``, ``kind``, and ``+``, ``-`` and ``^`` between them."""

    def __init__(self, graph: Graph, text: str) -> None:
        self._graph = graph
        self._text = text
        self._tokens: list[str] = [token.strip("'\"") for token in _TOKEN.findall(text)]
        self._ordered = False

    def answer(self) -> list[str]:
        """Return the names of the answer: sorted, except for a path."""
        names = self._union()
        if self._tokens:
            raise self._error(f"'{self._tokens[0]}' is not expected here")
        return names if self._ordered else sorted(names)

    def _union(self) -> list[str]:
        names = self._term()
        while self._tokens and (operator := _OPERATORS.get(self._tokens[0], self._tokens[0])) in _OPERATORS.values():
            self._tokens.pop(0)
            other, self._ordered = set(self._term()), False
            if operator == "union":
                names = list({*names, *other})
            else:
                names = [name for name in names if (name in other) == (operator == "intersect")]
        return names

    def _term(self) -> list[str]:
        token = self._next()
        if token == "(":
            names = self._union()
            self._expect(")")
            return names
        if self._tokens[:1] != ["("]:
            return self._named(token)
        functions: dict[str, Callable[[], list[str]]] = {
            "deps": self._deps, "rdeps": self._rdeps, "somepath": self._somepath, "kind": self._kind,
        }  # fmt: skip
        if token not in functions:
            raise self._error(f"there is no function {token}; the functions are {', '.join(_ARGUMENTS.values())}")
        self._next()
        names = functions[token]()
        if self._tokens[:1] != [")"]:
            raise self._error(f"the function is written {_ARGUMENTS[token]}")
        self._next()
        self._ordered = token == "somepath"
        return names

    def _deps(self) -> list[str]:
        names, depth = self._union(), None
        if self._tokens[:1] == [","]:
            self._next()
            word = self._next()
            if not word.isdecimal():
                raise self._error(f"'{word}' is not a depth; give a number")
            depth = int(word)
        return self._graph.reach(names, self._graph.deps, depth)

    def _rdeps(self) -> list[str]:
        names, within = self._union(), None
        if self._tokens[:1] == [","]:
            self._next()
            within, names = set(self._graph.reach(names, self._graph.deps)), self._union()
        reached = self._graph.reach(names, self._graph.rdeps)
        return reached if within is None else [name for name in reached if name in within]

    def _somepath(self) -> list[str]:
        start = self._union()
        self._expect(",")
        return self._graph.path(start, self._union())

    def _kind(self) -> list[str]:
        pattern = self._next()
        self._expect(",")
        names = self._union()
        try:
            return [name for name in names if re.search(pattern, self._graph.kind(name))]
        except re.error as error:
            raise self._error(f"'{pattern}' is not a pattern: {error}") from None

    def _named(self, name: str) -> list[str]:
        if name == "all":
            return list(self._graph.nodes)
        name = os.path.normpath(name) if os.sep in name else name
        if name in self._graph.nodes:
            return [name]
        near = difflib.get_close_matches(name, self._graph.nodes, n=1)
        raise self._error(f"there is no target or file {name}" + (f"; did you mean {near[0]}?" if near else ""))

    def _next(self) -> str:
        if not self._tokens:
            raise self._error("the expression ends too early")
        return self._tokens.pop(0)

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise self._error(f"'{token}' is missing")

    def _error(self, message: str) -> OptionError:
        return OptionError(f"query '{self._text}': {message}")


def _as_text(graph: Graph, names: list[str]) -> list[str]:
    return names


def _as_json(graph: Graph, names: list[str]) -> list[str]:
    rows = [{"name": name, "kind": graph.kind(name), "deps": graph.deps[name]} for name in names]
    return msgspec.json.format(msgspec.json.encode(rows), indent=2).decode().splitlines()


def _as_dot(graph: Graph, names: list[str]) -> list[str]:
    among = set(names)
    nodes = [f'  "{name}" [label="{name}\\n{graph.kind(name)}"];' for name in names]
    edges = [f'  "{name}" -> "{dep}";' for name in names for dep in graph.deps[name] if dep in among]
    return ["digraph query {", "  rankdir=LR; node [shape=box];", *nodes, *edges, "}"]


_FORMATS: dict[str, Callable[[Graph, list[str]], list[str]]] = {"text": _as_text, "json": _as_json, "dot": _as_dot}
