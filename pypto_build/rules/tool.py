"""The SCons tool: reads the options, registers the rules, and declares the artifact that ``JIT=`` selects."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import SCons.Script
from SCons.Action import Action
from SCons.Script import ARGUMENTS, BUILD_TARGETS, COMMAND_LINE_TARGETS, GetOption, SetOption

from pypto_build import terminal
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.rules.artifact import Artifacts, look_ahead
from pypto_build.rules.compile_commands import look_at_commands
from pypto_build.rules.machinery import standing
from pypto_build.rules.machinery.actions import spawner
from pypto_build.rules.machinery.attributes import RuleError
from pypto_build.rules.machinery.database import keep_no_signatures
from pypto_build.rules.machinery.invocation import Invocation
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.workspace import Workspace, workspace_of
from pypto_build.rules.many import names_many
from pypto_build.rules.options import OptionError, Options, parse_options
from pypto_build.rules.replay import Replays
from pypto_build.rules.selection import declare_selected
from pypto_build.rules.targets import check_taken
from pypto_build.toolchain.cache import REMOTE_VARIABLE
from pypto_build.trace import note_start, span

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

_HELP = "help"
# Steps and records of thousands of kernels stay: a collector that looks through them every few thousand objects finds
# nothing.
_COLLECT = (100_000, 20, 20)

# The only state of this package: SCons has one process for all environments of an SConstruct.
_INVOCATION = Invocation()
#: What is done when SCons has ended, for a process that goes on then.
finish = _INVOCATION.finish
call_first = _INVOCATION.call_first


def generate(env: Environment) -> None:
    """Set up ``env``. With ``JIT=`` on the command line, the selected artifact is declared too."""
    with _INVOCATION.user_errors():
        if GetOption("num_jobs") == 1:
            SetOption("num_jobs", len(os.sched_getaffinity(0)))
        turn = _choose_job(env) if names_many(ARGUMENTS) else None
        options = parse_options(ARGUMENTS)
        terminal.show_details(options["VERBOSE"])
        if not GetOption("clean"):
            options = _check(options, list(map(str, COMMAND_LINE_TARGETS)))
        ahead = partial(_look_ahead, options)
        if options["WATCH"]:
            _INVOCATION.watch(ahead)
        elif turn is None and _is_plain_replay(options):
            _INVOCATION.stand(ahead)
        if options["PROFILE"]:
            _INVOCATION.profile(options)
        note_start("start Python, SCons and the rules")
        gc.set_threshold(*_COLLECT)
        SCons.Script.DefaultEnvironment(tools=[])
        SetOption("no_progress", True)
        with span("open the workspace"):
            workspace = standing.take_workspace(partial(_open_workspace, options))
        keep_no_signatures()
        _INVOCATION.open(workspace)
        if turn:
            workspace.turn, workspace.of_batch = turn, True
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
            workspace.at_end.append(partial(_clean, workspace))  # after the rules, which open what they declare
        else:
            with span("declare"):
                declare_selected(env, _INVOCATION.verdicts)


def _is_plain_replay(options: Options) -> bool:
    """Whether one artifact is replayed, by what was given alone."""
    simulated = PLATFORMS[options["PLATFORM"]].simulated and not options.requested and not options["HARDWARE"]
    asked = list(map(str, COMMAND_LINE_TARGETS)) == ["replay"] and bool(options["JIT"])
    return asked and simulated and not (GetOption("clean") or GetOption("help") or GetOption("no_exec"))


def _look_ahead(options: Options) -> None:
    """For the forks of a process that stands at this call: what the next one will most likely look at."""
    wanted = standing.NEXT.wanted
    if not wanted.artifact or options["SANDBOX"] or options["STORE_REMOTE"] or os.environ.get(REMOTE_VARIABLE):
        return
    workspace = standing.NEXT.workspace
    if workspace is None:
        workspace = _open_workspace(options)
    for place in workspace.places.values():
        place.renew(workspace.store)
    plans, binaries = look_ahead(workspace, Path(wanted.artifact), PLATFORMS[wanted.platform])
    if plans:
        look_at_commands(workspace, plans, binaries)
    standing.NEXT.workspace = workspace


def _choose_job(env: Environment) -> Callable[[], AbstractContextManager[None]] | None:
    """Where the command line names many artifacts, go on in a process for each; what its commands wait for."""
    from pypto_build.rules.many.batch import Forked
    from pypto_build.rules.many.start import run_many
    from pypto_build.rules.many.told import end_job

    try:
        run_many(env, _open_workspace)
    except Forked as forked:
        _INVOCATION.become_job(partial(end_job, forked.writer))
        return forked.slots.turn
    return None


def _clean(workspace: Workspace) -> None:
    from pypto_build.rules.machinery.cleaning import clean_outputs

    try:
        clean_outputs(workspace, workspace.options["PLATFORM"] if "PLATFORM" in ARGUMENTS else "")
    except OSError as error:
        terminal.complain(f"scons: *** {error.filename}: cannot be removed: {error.strerror}")
        terminal.step_aside()
        os._exit(2)  # SCons has decided on its status before


def _check(options: Options, targets: list[str]) -> Options:
    """What was given, for the platform that it means here."""
    check_taken(ARGUMENTS, targets)
    if options["HARDWARE"] or not PLATFORMS[options["PLATFORM"]].simulated:
        from pypto_build.rules.platform_choice import choose_platform

        return choose_platform(options, ARGUMENTS, targets, bool(GetOption("no_exec")))
    return options


def _open_workspace(options: Options) -> Workspace:
    top = Path(SCons.Script.Dir("#").abspath)
    workspace = Workspace(top, options, _needs_whole_graph())
    if options["SANDBOX"]:
        from pypto_build.rules.machinery.confinement import Confinement

        workspace.confine = Confinement(options, top, workspace.build_dir, workspace.outputs).confine
    return workspace


def _declare_help(env: Environment, workspace: Workspace) -> None:
    """``scons`` without a target, ``scons help TOPIC ...`` and ``scons -h`` print help; the last knows no tests yet."""
    targets = list(map(str, COMMAND_LINE_TARGETS))
    topics = targets[1:] if targets[:1] == [_HELP] else []
    if topics:
        BUILD_TARGETS[:] = COMMAND_LINE_TARGETS[:] = [_HELP]
    if GetOption("help"):
        SCons.Script.Help(_help_text(workspace, topics, ()), append=False)

    printed = env.Alias(_HELP, [], Action(_print_help, None), PYPTO_TOPICS=topics)
    env.AlwaysBuild(printed)
    env.Default(printed)


def _print_help(target: Nodes, source: Nodes, env: Environment) -> int:
    try:
        terminal.say(_help_text(workspace_of(env), env["PYPTO_TOPICS"], env["PYPTO_REPLAYS"].tags))
    except OptionError as error:
        terminal.complain(f"scons: *** {error}")
        return 2
    return 0


def _help_text(workspace: Workspace, topics: list[str], tests: Collection[str]) -> str:
    from pypto_build.rules.machinery.help import explain, overview

    return explain(topics, workspace, tests) if topics else overview(workspace, tests)


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
