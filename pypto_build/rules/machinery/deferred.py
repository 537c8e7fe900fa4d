"""Parts of the graph that are declared during the build, once the files that determine them exist.

The content of an artifact is known only after it is built. So its kernels and tests are declared by the scanner of a
node that represents them. SCons asks a scanner for dependencies when it checks the node, and once more when one of
those has been built, as it does for includes of generated sources.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import SCons.Node
from SCons.Action import Action
from SCons.Scanner import Scanner
from SCons.Script import GetOption

from pypto_build import terminal
from pypto_build.artifact import ArtifactError
from pypto_build.replay.verdict import EXIT_STATUS
from pypto_build.rules.machinery.inputs import (
    MADE_BY_US,
    RuleError,
    create_directories,
    forget,
    made_by_users,
    makers,
)
from pypto_build.rules.machinery.scons_types import Environment, Node, Nodes
from pypto_build.rules.machinery.steps import made_by_us
from pypto_build.rules.options import OptionError
from pypto_build.toolchain import ToolchainError

_COUNTER = itertools.count()
#: Among the workspace's extras: whether the graph is only looked at, so that nothing is made first.
QUERY = "query"
#: Errors in the user's own files.
USER_ERRORS = (ArtifactError, OptionError, RuleError, ToolchainError, OSError)


class Deferred:
    """Nodes that ``declare`` returns, once everything that makes ``inputs`` has been built.

    Both are called after all scripts have been read.
    """

    def __init__(
        self, env: Environment, inputs: Callable[[], Iterable[Node]], declare: Callable[[], Iterable[Node]]
    ) -> None:
        self._env = env
        self._inputs = inputs
        self._declare = declare
        self._gate: Node | None = None
        self._nodes: list[Node] | None = None
        self.before: list[Node] = []  # what users let this come after, by Depends() and Requires()
        self.error: Exception | None = None  # what is wrong with what would have been declared
        self.is_open = False  # whether nothing can be declared, since -n makes nothing

    @property
    def inputs(self) -> list[Node]:
        """Return the nodes that must be built first, as far as the scripts have declared them."""
        return list(dict.fromkeys(maker for node in [*self._inputs(), *self.before] for maker in makers(node)))

    def nodes(self) -> list[Node]:
        """Return the nodes that the deferred part waits for: first the makers of the inputs, then the declared
        nodes.
        """
        inputs = self.inputs if self._nodes is None else []
        looks = bool(GetOption("clean")) or QUERY in self._env["PYPTO"].extras  # with what is there now
        if not looks and any(node.get_state() < SCons.Node.up_to_date for node in inputs):
            if self._gate is None:
                # SCons asks again when this gate has been built, which it always is; an input may be up to date.
                gate = self._env.Alias(f"inputs {next(_COUNTER)}", inputs, Action(_nothing, None))
                (self._gate,) = made_by_us(self._env, gate)
            return [self._gate]
        if self._nodes is None:
            self._nodes = []  # what fails is not tried again
            for node in inputs:
                forget(node)
            try:
                if not (looks or GetOption("no_exec")):
                    create_directories()
                self._nodes = list(self._declare())
            except USER_ERRORS as error:
                self.is_open = looks or bool(GetOption("no_exec") and (inputs or made_by_users()))
                self.error = None if self.is_open else error
        return [*([self._gate] if self._gate else inputs if looks else []), *self._nodes]


def declare_deferred(
    env: Environment, targets: object, deferred: Deferred, act: Callable[[], int | None] = lambda: None
) -> Nodes:
    """Return the nodes of ``targets``, which run ``act`` after all that is ``deferred``.

    SCons always builds them. Errors in the declaration are reported.
    """
    action = Action(_end, None)
    node = env.Command(targets, [], action, target_scanner=SCANNER, PYPTO_DEFERRED=deferred, PYPTO_ACT=act)
    return made_by_us(env, node)


def _end(target: Nodes, source: Nodes, env: Environment) -> int:
    deferred: Deferred = env["PYPTO_DEFERRED"]
    if deferred.error is None:
        return env["PYPTO_ACT"]() or 0
    terminal.complain(f"scons: *** {deferred.error}")
    return EXIT_STATUS[getattr(deferred.error, "kind", "usage_error")]


def _nothing(target: Nodes, source: Nodes, env: Environment) -> None:
    """Do nothing: all files that the node represents are built before."""


def _scan(node: Node, env: Environment, path: object) -> list[Node]:
    deferred: Deferred = env["PYPTO_DEFERRED"]
    deferred.before = _before(node)
    return deferred.nodes()


def _before(node: Node) -> list[Node]:
    return [*node.depends, *(node.prerequisites or ())]


def note_order(results: Iterable[Node]) -> Callable[[set[Node]], None]:
    """Note the order of ``results``; return a function that passes on orders which users add later.

    The makers of a result then wait for the same nodes. Call the function when all scripts have been read, with the
    results of all rules: it stops at these.
    """
    inputs = {node: set(_before(node)) for node in results}

    def pass_on(others: set[Node]) -> None:
        for result, before in inputs.items():
            more = [node for node in _before(result) if node not in before]
            waiting = list(result.sources) if more else []
            while waiting:
                node = waiting.pop()
                if getattr(node.attributes, MADE_BY_US, False) and node not in others:
                    node.add_dependency(more)
                    waiting += node.sources

    return pass_on


def _each_time(env: Environment, *_others: Any) -> tuple[int]:
    """Make SCons forget a scanner's earlier answer."""
    return (next(_COUNTER),)


#: The scanner of a node with a `Deferred` in ``PYPTO_DEFERRED``.
SCANNER = Scanner(_scan, name="pypto", node_class=None, node_factory=None, path_function=_each_time)
