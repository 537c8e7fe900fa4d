"""Targets of the command line that are declared after their inputs have been made."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from SCons.Script import BUILD_TARGETS
from SCons.Script.SConscript import call_stack

from pypto_build.rules.machinery.deferred import Deferred, declare_deferred
from pypto_build.rules.machinery.inputs import made_directories
from pypto_build.rules.machinery.scons_types import Environment, Node
from pypto_build.rules.machinery.workspace import escape, workspace_of

# Calls in a script that may make an artifact: such a rule, another script, or a module of the user's.
_MAKES = re.compile(r"\b(PtoProgram|Command|SConscript)\b")
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+(\w+)", re.MULTILINE)
_HARMLESS = sys.stdlib_module_names | {"pypto_build", "SCons"}


def scripts_make() -> bool:
    """Return whether the current SConstruct may make an artifact."""
    with suppress(AttributeError, OSError, IndexError):
        text = Path(call_stack[0].sconscript.abspath).read_text(encoding="utf-8", errors="replace")
        return bool(_MAKES.search(text)) or not _HARMLESS.issuperset(_IMPORT.findall(text))
    return False


def made_artifacts(jit: str) -> list[Node]:
    """Return the built directories that ``JIT=`` may mean."""
    names = ["*"] if jit == "latest" else list(Path(jit).parts)
    return [node for node in made_directories() if any(fnmatch(node.name, name) for name in names)]


def declare_files(env: Environment, targets: Iterable[str]) -> None:
    """Make files that the command line names wait for the artifacts whose OUT contains them."""
    workspace, paths = workspace_of(env), [Path(os.path.abspath(target)) for target in targets]

    def all_deferred() -> list[Deferred]:
        return [one for output, one in workspace.deferred if any(path.is_relative_to(output) for path in paths)]

    def declare() -> None:
        for deferred in all_deferred():
            deferred.nodes()

    if any(path.is_relative_to(workspace.build_dir) for path in paths):
        declare_stage(env, lambda: [node for deferred in all_deferred() for node in deferred.inputs], declare)


def declare_stage(env: Environment, inputs: Callable[[], Iterable[Node]], declare: Callable[[], object]) -> None:
    """Make the targets of the command line wait until ``inputs`` are built and ``declare`` has declared their work."""
    targets = list(map(str, BUILD_TARGETS))
    deferred = Deferred(env, inputs, partial(_declare, env, targets, declare))
    BUILD_TARGETS[:] = declare_deferred(env, escape(str(workspace_of(env).build_dir / ".stage")), deferred)


def _declare(env: Environment, targets: list[str], declare: Callable[[], object]) -> list[Node]:
    declare()
    return env.arg2nodes(targets)
