"""Actions that run a Python tool of this package."""

from __future__ import annotations

import platform as machine
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pypto_build.proof import Action
from pypto_build.rules.machinery.environment import program_environment, search_paths, tool_environment
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.toolchain.python import own_tool

# Variables of the caller's environment that decide about a tool of ours.
_DECIDING = ("PYTHONPATH", "PTO2_RING_")
# The same of one that may use a toolkit, or simpler.
_OF_TOOLKITS = ("ASCEND_", "SIMPLER_")


def python_tool(
    workspace: Workspace,
    module: str,
    argv: Sequence[str],
    *,
    name: str,
    inputs: Iterable[str | Path] = (),
    settings: Mapping[str, str] | None = None,
    keyed: bool = True,
    toolkits: bool = True,
    runs_programs: bool = False,
    foreign: bool = False,
    variables: Sequence[str] = (),
    **more: Any,
) -> Action:
    """Return the action that runs ``module``; ``more`` are further fields of it. Its own modules count as read.

    An action that is not ``keyed`` depends on nothing of the caller's environment. A tool without ``toolkits`` does not
    get the variables of toolkits. If it ``runs_programs``, it executes the user's Python. Its whole environment is then
    in the key, with the ``variables`` that the user declares. A tool that is ``foreign`` executes the user's
    Python, too.
    """
    environment = workspace.environment
    if runs_programs:
        environment = deciding = program_environment(environment, variables)
    else:
        if not toolkits:
            environment = tool_environment(environment, ("PTO2_RING_",))
        deciding = search_paths(environment, (*_DECIDING, *_OF_TOOLKITS))
    return Action(
        name=name,
        argv=(*own_tool(module), *argv),
        inputs=tuple(map(str, inputs)),
        settings={"Python": f"{sys.version} {machine.machine()}", **(deciding if keyed else {}), **(settings or {})},
        environment=environment,
        python=True,
        foreign=foreign or runs_programs,
        **more,
    )
