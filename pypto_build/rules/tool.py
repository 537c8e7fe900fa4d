"""The SCons tool: reads the options, registers the rules, and declares the artifact that ``JIT=`` selects."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import SCons.Script
from SCons.Action import Action
from SCons.Script import ARGUMENTS, COMMAND_LINE_TARGETS, GetOption, SetOption

from pypto_build.rules.artifact import Artifacts
from pypto_build.rules.machinery.actions import spawner
from pypto_build.rules.machinery.attributes import RuleError
from pypto_build.rules.machinery.database import keep_no_signatures
from pypto_build.rules.machinery.invocation import Invocation
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.workspace import Workspace, workspace_of
from pypto_build.rules.options import Options, parse_options
from pypto_build.rules.replay import Replays
from pypto_build.rules.selection import declare_selected
from pypto_build.rules.targets import check_taken

#: Rules by the name by which an environment has them: the module that is loaded when one is called, and its function.
RULES: dict[str, tuple[str, str]] = {
    "PtoArtifact": ("artifact", "declare_artifact"),
    "ReplayTest": ("replay_test", "declare_replay_test"),
    "SceneTest": ("scene_test", "declare_scene_test"),
    "PtoProgram": ("program", "declare_program"),
    "PtoKernel": ("single", "declare_kernel"),
    "PtoOrchestration": ("single", "declare_orchestration"),
    "KernelConfig": ("single", "declare_kernel_config"),
}

# The only state of this package: SCons has one process for all environments of an SConstruct.
_INVOCATION = Invocation()


def generate(env: Environment) -> None:
    """Set up ``env``. With ``JIT=`` on the command line, the selected artifact is declared too."""
    with _INVOCATION.user_errors():
        options = parse_options(ARGUMENTS)
        if not GetOption("clean"):
            check_taken(ARGUMENTS, list(map(str, COMMAND_LINE_TARGETS)))
        if options["WATCH"]:
            _INVOCATION.watch()
        SCons.Script.DefaultEnvironment(tools=[])
        SetOption("no_progress", True)
        if GetOption("num_jobs") == 1:
            SetOption("num_jobs", len(os.sched_getaffinity(0)))
        workspace = _open_workspace(options)
        keep_no_signatures()
        _INVOCATION.open(workspace)
        env.Replace(
            PYPTO=workspace,
            PYPTO_ARTIFACTS=Artifacts(),
            PYPTO_REPLAYS=Replays(),
            ENV=workspace.environment,
            SHELL=None,
            ESCAPE=str,
            SPAWN=spawner(workspace.confine),
            IMPLICIT_COMMAND_DEPENDENCIES=0,
        )
        for name, (module, function) in RULES.items():
            env.AddMethod(_rule(module, function), name)
        _declare_help(env, workspace)
        if GetOption("clean"):
            from pypto_build.rules.machinery.cleaning import clean_outputs

            clean_outputs(workspace, options["JIT"])
        else:
            declare_selected(env, _INVOCATION.verdicts)


def _open_workspace(options: Options) -> Workspace:
    top = Path(SCons.Script.Dir("#").abspath)
    workspace = Workspace(top, options, _needs_whole_graph())
    if options["SANDBOX"]:
        from pypto_build.rules.machinery.confinement import Confinement

        workspace.confine = Confinement(options, top, workspace.build_dir, workspace.outputs).confine
    return workspace


def _declare_help(env: Environment, workspace: Workspace) -> None:
    """``scons`` without a target, and ``scons -h``, print the help."""
    if GetOption("help"):
        from pypto_build.rules.machinery.help import help_text

        SCons.Script.Help(help_text(workspace), append=False)
    printed = env.Alias("help", [], Action(_print_help, None))
    env.AlwaysBuild(printed)
    env.Default(printed)


def _print_help(target: Nodes, source: Nodes, env: Environment) -> None:
    from pypto_build.rules.machinery.help import help_text

    print(help_text(workspace_of(env)))


def _rule(module: str, function: str) -> Callable[..., Any]:
    """The method that applies a rule."""

    def method(env: Environment, *args: Any, **attributes: Any) -> Any:
        with _INVOCATION.user_errors():
            if args:
                raise RuleError(f"{function}: attributes are given by name, such as name='...'")
            return getattr(import_module(f"pypto_build.rules.{module}"), function)(env, **attributes)

    return method


def _needs_whole_graph() -> bool:
    """Whether somebody asked for nodes by file name or wants to see the graph."""
    names_a_file = any("/" in target or "." in target for target in map(str, COMMAND_LINE_TARGETS))
    return names_a_file or bool(GetOption("tree_printers"))
