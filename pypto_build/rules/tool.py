"""The SCons tool: reads the options, registers the rules, and declares the artifact that ``JIT=`` selects."""

from __future__ import annotations

import atexit
import difflib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import SCons.Node.Alias
import SCons.Script
from SCons.Script import ARGUMENTS, COMMAND_LINE_TARGETS, Exit, GetBuildFailures, GetOption, SetOption

from pypto_build.artifact import ArtifactError
from pypto_build.rules import selection
from pypto_build.rules.artifact import declare_artifact
from pypto_build.rules.machinery import watch
from pypto_build.rules.machinery.actions import spawn_streaming
from pypto_build.rules.machinery.attributes import RuleError
from pypto_build.rules.machinery.cleaning import clean_outputs
from pypto_build.rules.machinery.confinement import use_sandbox
from pypto_build.rules.machinery.database import keep_no_signatures
from pypto_build.rules.machinery.environment import passed_environment
from pypto_build.rules.machinery.help import declare_help
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.rules.options import OptionError, parse_options
from pypto_build.rules.program import declare_program
from pypto_build.rules.replay_test import declare_replay_test
from pypto_build.rules.single import declare_kernel, declare_kernel_config, declare_orchestration
from pypto_build.rules.targets import TARGETS, check_taken
from pypto_build.toolchain import ToolchainError

RULES: dict[str, Callable[..., Any]] = {
    "PtoArtifact": declare_artifact,
    "PtoKernel": declare_kernel,
    "PtoOrchestration": declare_orchestration,
    "KernelConfig": declare_kernel_config,
    "ReplayTest": declare_replay_test,
    "PtoProgram": declare_program,
}

_USER_ERRORS = (ArtifactError, OptionError, RuleError, ToolchainError)


def generate(env: Any) -> None:
    """Set up ``env``. With ``JIT=`` on the command line, the selected artifact is declared too."""
    with user_errors():
        options = parse_options(ARGUMENTS)
        if not GetOption("clean"):
            check_taken(ARGUMENTS, list(map(str, COMMAND_LINE_TARGETS)))
        if options["WATCH"]:
            watch.each_round()
        SCons.Script.DefaultEnvironment(tools=[])
        SetOption("no_progress", True)
        if GetOption("num_jobs") == 1:
            SetOption("num_jobs", len(os.sched_getaffinity(0)))
        top = Path(SCons.Script.Dir("#").abspath)
        workspace = Workspace(top, options, _needs_whole_graph())
        if options["SANDBOX"]:
            use_sandbox(options, top, workspace.build_dir, workspace.outputs)
        if options["WATCH"]:
            watch.depend_on(workspace)
        workspace.environment = passed_environment()
        keep_no_signatures()
        atexit.register(workspace.save)
        env.Replace(
            PYPTO=workspace,
            ENV=workspace.environment,
            SHELL=None,
            ESCAPE=str,
            SPAWN=spawn_streaming,
            IMPLICIT_COMMAND_DEPENDENCIES=0,
        )
        for name, declare in RULES.items():
            env.AddMethod(_reporting(declare), name)
        declare_help(env)
        atexit.register(_explain_unknown_targets)
        if GetOption("clean"):
            clean_outputs(workspace, options["JIT"])
        else:
            selection.declare_selected(env)


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn an error of the user's into its one line and exit status 2."""
    try:
        yield
    except (*_USER_ERRORS, OSError) as error:
        if isinstance(error, OSError):  # a full disk, a place that is read-only
            error = ArtifactError(error.filename or "", error.strerror or str(error))
        sys.stdout.flush()
        print(f"scons: *** {error}", file=sys.stderr, flush=True)
        selection.record_error(error)
        Exit(2)


def _reporting(declare: Callable[..., Any]) -> Callable[..., Any]:
    def method(env: Any, *args: Any, **attributes: Any) -> Any:
        with user_errors():
            if args:
                raise RuleError(f"{declare.__name__}: attributes are given by name, such as name='...'")
            return declare(env, **attributes)

    return method


def _explain_unknown_targets() -> None:
    """SCons takes a mistyped target for a file that it cannot make."""
    for failure in GetBuildFailures():
        name = str(failure.node)
        if str(failure.errstr).startswith("Do not know how to make") and name in map(str, COMMAND_LINE_TARGETS):
            near = difflib.get_close_matches(name, {*TARGETS, *SCons.Node.Alias.default_ans}, n=1)
            meant = f"did you mean {near[0]}?" if near else "'scons' alone lists them"
            print(f"scons: there is no target {name}; {meant}", file=sys.stderr, flush=True)


def _needs_whole_graph() -> bool:
    """Whether somebody asked for nodes by file name or wants to see the graph."""
    names_a_file = any("/" in target or "." in target for target in map(str, COMMAND_LINE_TARGETS))
    return names_a_file or bool(GetOption("tree_printers"))
