"""The SCons tool: reads the options, registers the rules, and declares the artifact that ``JIT=`` selects."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from importlib import import_module
from optparse import OptionConflictError
from pathlib import Path
from typing import Any

import SCons.Script
from SCons.Action import Action
from SCons.Script import ARGUMENTS, BUILD_TARGETS, COMMAND_LINE_TARGETS, DEFAULT_TARGETS, GetOption, SetOption
from SCons.Script.SConscript import call_stack

from pypto_build import terminal
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.rules.artifact import Artifacts, precheck_units
from pypto_build.rules.compile_commands import precheck_commands
from pypto_build.rules.machinery import prefork
from pypto_build.rules.machinery.actions import spawner
from pypto_build.rules.machinery.attributes import RuleError, each_variant
from pypto_build.rules.machinery.database import decide_verdicts, keep_signatures_of_users
from pypto_build.rules.machinery.deferred import note_order
from pypto_build.rules.machinery.inputs import check_installed, made_by_users, order_files
from pypto_build.rules.machinery.invocation import Invocation
from pypto_build.rules.machinery.scons_types import Environment, Node, Nodes
from pypto_build.rules.machinery.taskmaster import set_hooks
from pypto_build.rules.machinery.termination import end_on_signals
from pypto_build.rules.machinery.workspace import Workspace, workspace_of
from pypto_build.rules.many import names_many
from pypto_build.rules.options import OptionError, Options, parse_options
from pypto_build.rules.replay import Replays
from pypto_build.rules.selection import declare_selected
from pypto_build.rules.stage import declare_files, declare_stage, made_artifacts, scripts_make
from pypto_build.rules.targets import TARGETS, check_taken
from pypto_build.toolchain.cache import REMOTE_VARIABLE
from pypto_build.trace import note_start, span

#: Rules by the name by which an environment has them: the module that is loaded when one is called, and its function.
RULES: dict[str, tuple[str, str]] = {
    "PtoArtifact": ("artifact", "declare_artifact"),
    "ReplayTest": ("replay_test", "declare_replay_test"),
    "SceneTest": ("scene_test", "declare_scene_test"),
    "PtoProgram": ("program", "declare_program"),
    "PtoKernel": ("module", "declare_kernel"),
    "PtoOrchestration": ("module", "declare_orchestration"),
    "PtoModule": ("module", "declare_module"),
    "GoldenData": ("golden_data", "declare_golden_data"),
    "Artifacts": ("artifacts", "declare_artifacts"),
    "LintTest": ("instrument_test", "declare_lint_test"),
    "HazardTest": ("instrument_test", "declare_hazard_test"),
    "PyTest": ("py_test", "declare_py_test"),
    "TestSuite": ("suite", "declare_test_suite"),
    "KernelConfig": ("artifact", "declare_kernel_config"),
}

_HELP = "help"
# Among the workspace's extras: what rules have returned.
_RESULTS = "results of rules"
# A target that is a file, and no name of a test with its platform or tolerance.
_FILE_NAME = re.compile(r"/|\.[a-z]+$")
# Steps and records of thousands of kernels stay: a collector that looks through them every few thousand objects finds
# nothing.
_COLLECT = (100_000, 20, 20)

# The only state of this package: SCons has one process for all environments of an SConstruct.
_INVOCATION = Invocation()
#: Called when SCons has ended, in a process that goes on.
finish = _INVOCATION.finish
call_first = _INVOCATION.call_first


def generate(env: Environment) -> None:
    """Set up ``env``. With ``JIT=`` on the command line, the selected artifact is declared too."""
    with _INVOCATION.user_errors():
        if not _INVOCATION.construction:
            _begin(env)
        env.Replace(**_INVOCATION.construction)
        env.decide_target = decide_verdicts(env.decide_target)
        for name, (module, function) in RULES.items():
            env.AddMethod(_rule(module, function), name)
        if not _INVOCATION.declared:
            _INVOCATION.declared = True
            _declare_targets(env)


def _begin(env: Environment) -> None:
    """Open the workspace, which all environments of an SConstruct share."""
    if GetOption("num_jobs") == 1:
        SetOption("num_jobs", len(os.sched_getaffinity(0)))
    _take_patterns()
    _take_list()
    turn = _choose_job(env) if names_many(ARGUMENTS) else None
    options = parse_options(ARGUMENTS)
    terminal.show_details(options["VERBOSE"])
    if not GetOption("clean"):
        targets = list(map(str, COMMAND_LINE_TARGETS))
        options = _check(options, ["query"] if targets[:1] == ["query"] else targets)
    ahead = partial(_precheck, options)
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
        workspace = prefork.take_workspace(partial(_open_workspace, options))
    set_hooks(partial(_when_read, workspace))
    end_on_signals()
    keep_signatures_of_users(workspace.build_dir, workspace.forget_checks)
    _INVOCATION.open(workspace)
    if turn:
        workspace.turn, workspace.of_batch = turn, True
    _INVOCATION.construction = {
        "PYPTO": workspace,
        "PYPTO_ARTIFACTS": Artifacts(),
        "PYPTO_REPLAYS": Replays(),
        "ENV": workspace.environment,
        "SPAWN": spawner(workspace.confine, by_shell=True),
        "PYPTO_WITHOUT_SHELL": {"SPAWN": spawner(workspace.confine, by_shell=False), "SHELL": None, "ESCAPE": str},
        "IMPLICIT_COMMAND_DEPENDENCIES": 0,
    }


def _take_list() -> None:
    """Accept `scons test --list` as LIST=1, unless the user's scripts have a flag of this name."""
    with suppress(OptionConflictError):
        SCons.Script.AddOption("--list", dest="pypto_list", action="store_true", help="with test: LIST=1")
        if GetOption("pypto_list"):
            ARGUMENTS["LIST"] = "1"


def _take_patterns() -> None:
    """Convert the patterns after `test` on the command line to an option: `scons test 'soft*'`."""
    patterns = [target for target in map(str, COMMAND_LINE_TARGETS) if re.search(r"[*?\[]", target)]
    if patterns and "test" in map(str, COMMAND_LINE_TARGETS):
        ARGUMENTS["NAMES"] = ",".join([*filter(None, [ARGUMENTS.get("NAMES")]), *patterns])
        for targets in (COMMAND_LINE_TARGETS, BUILD_TARGETS):
            targets[:] = [target for target in targets if str(target) not in patterns]


def _when_read(workspace: Workspace, targets: list[Node]) -> None:
    """Complete the graph after all scripts have been read, because a rule may use files of a later rule.

    `scons -c` cleans the files of all builders, as SCons does if the scripts name no defaults.
    """
    chosen = COMMAND_LINE_TARGETS or workspace.options["JIT"] or "PLATFORM" in ARGUMENTS
    if GetOption("clean") and not chosen and list(map(str, DEFAULT_TARGETS)) == [_HELP]:
        targets += made_by_users()
    results = workspace.extras.get(_RESULTS, [])
    everything = {node for nodes, _ in results for node in nodes}
    for _, pass_on in results:
        pass_on(everything)
    if workspace.scripts:
        with _INVOCATION.user_errors():
            check_installed()
        order_files()
    for step in workspace.at_start:
        step()


def _declare_targets(env: Environment) -> None:
    """Declare the targets of the command line; ``-c`` cleans at the end, after the rules, which open their outputs."""
    workspace = workspace_of(env)
    _declare_help(env, workspace)
    words = list(map(str, COMMAND_LINE_TARGETS))
    if words[:1] == ["query"]:
        from pypto_build.rules.query import declare_query

        BUILD_TARGETS[:] = COMMAND_LINE_TARGETS[:] = ["query"]
        declare_query(env, " ".join(words[1:]))
    if GetOption("clean"):
        workspace.at_end.append(partial(_clean, workspace))
        return
    targets = list(map(str, COMMAND_LINE_TARGETS))
    jit, declare = workspace.options["JIT"], partial(declare_selected, env, _INVOCATION.verdicts)
    if jit and set(targets) <= TARGETS.keys() and scripts_make():
        declare_stage(env, partial(made_artifacts, jit), declare)
    else:
        declare_files(env, targets)
        with span("declare"):
            declare()


def _is_plain_replay(options: Options) -> bool:
    """Return True if the command replays one artifact, with the given options and nothing else."""
    simulated = PLATFORMS[options["PLATFORM"]].simulated and not options.requested and not options["HARDWARE"]
    is_replay = list(map(str, COMMAND_LINE_TARGETS)) == ["replay"] and bool(options["JIT"])
    return is_replay and simulated and not (GetOption("clean") or GetOption("help") or GetOption("no_exec"))


def _precheck(options: Options) -> None:
    """Check in advance the inputs of the most likely next command, for forks of a process that waits at this call."""
    command = prefork.NEXT.upcoming
    if not command.artifact or options["SANDBOX"] or options["STORE_REMOTE"] or os.environ.get(REMOTE_VARIABLE):
        return
    workspace = prefork.NEXT.workspace
    if workspace is None:
        workspace = _open_workspace(options)
    for output_dir in workspace.output_dirs.values():
        output_dir.renew(workspace.store)
    plans, binaries = precheck_units(workspace, Path(command.artifact), PLATFORMS[command.platform])
    if plans:
        precheck_commands(workspace, plans, binaries)
    prefork.NEXT.workspace = workspace


def _choose_job(env: Environment) -> Callable[[], AbstractContextManager[None]] | None:
    """If the command line names many artifacts, continue in a process for each; return the function that gives its
    commands their job slots.
    """
    from pypto_build.rules.many.batch import Forked
    from pypto_build.rules.many.report import end_job
    from pypto_build.rules.many.start import run_many

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
    """Return the options, with the platform chosen for this machine."""
    check_taken(ARGUMENTS, targets)
    if options["HARDWARE"] or not PLATFORMS[options["PLATFORM"]].simulated:
        from pypto_build.rules.platform_choice import choose_platform

        return choose_platform(options, ARGUMENTS, targets, bool(GetOption("no_exec")))
    return options


def _open_workspace(options: Options) -> Workspace:
    top = Path(SCons.Script.Dir("#").abspath)
    workspace = Workspace(top, options, _needs_whole_graph())
    if len(call_stack) > 1:
        workspace.here = str(top)
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
    if not COMMAND_LINE_TARGETS and len(DEFAULT_TARGETS) > 1:  # the SConstruct has defaults of its own
        return 0
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
    """Return the method that applies a rule."""

    def method(env: Environment, *args: Any, **attributes: Any) -> Any:
        with _INVOCATION.user_errors():
            _note_script(env)
            if args:
                raise RuleError(f"{function}: takes attributes by name only, such as name='...'")
            declare = getattr(import_module(f"pypto_build.rules.{module}"), function)
            variants = list(each_variant(attributes))
            if variants == [attributes]:
                nodes = declare(env, **attributes)
            else:
                nodes = declare_variants(env, attributes.get("name", ""), variants, partial(declare, env))
            workspace_of(env).extras.setdefault(_RESULTS, []).append((nodes, note_order(nodes)))
            return nodes

    return method


def declare_variants(
    env: Environment, name: str, variants: Sequence[Mapping[str, Any]], declare: Callable[..., Nodes]
) -> list[Any]:
    """Declare a rule once for each of its ``variants``, and make ``name`` represent all of them."""
    nodes = [node for variant in variants for node in declare(**variant)]
    names = [variant["name"] for variant in variants if "name" in variant]
    replays: Replays = env["PYPTO_REPLAYS"]
    if names and all(one in replays.tags for one in names):
        from pypto_build.rules.tests import declare_suite

        declare_suite(env, name, names, (), map(str, COMMAND_LINE_TARGETS))
    elif names and name not in TARGETS:
        env.Alias(name, nodes)
    return nodes


def _note_script(env: Environment) -> None:
    """Record a script that calls a rule: WATCH=1 reads it again when it is saved."""
    for frame in call_stack:
        workspace_of(env).scripts.add(Path(frame.sconscript.get_abspath()))


def _needs_whole_graph() -> bool:
    """Return True if the command names nodes by file name or shows the graph."""
    targets = list(map(str, COMMAND_LINE_TARGETS))
    looks = bool(GetOption("tree_printers")) or targets[:1] == ["query"]
    return looks or any(map(_FILE_NAME.search, targets))
