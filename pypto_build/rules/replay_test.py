"""``ReplayTest``: run an artifact on fixed data and compare with its golden."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from SCons.Action import Action
from SCons.Script import COMMAND_LINE_TARGETS, GetOption

from pypto_build.artifact import ArtifactError, Snapshot, snapshot
from pypto_build.artifact.snapshot import REFERENCE, is_reference
from pypto_build.facts.platforms import Platform
from pypto_build.facts.run_options import EMBEDDED, RUN_OPTIONS
from pypto_build.replay.results import REPLAYS, show
from pypto_build.replay.verdict import EXIT_STATUS, read_verdict, write_verdict
from pypto_build.rules.artifact import ARTIFACT, ArtifactTargets, declare_artifact
from pypto_build.rules.compile_commands import update_compile_commands
from pypto_build.rules.machinery.actions import complain, run_streaming, run_whole
from pypto_build.rules.machinery.attributes import Attribute, Rule
from pypto_build.rules.machinery.configuration import Configuration, configuration, make_room, note_use
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.steps import Step, perform
from pypto_build.rules.machinery.workspace import Workspace, escape, workspace_of
from pypto_build.rules.targets import TARGETS
from pypto_build.toolchain import ToolchainError

_NUMBER = (int, float)

REPLAY_TEST = Rule(
    "ReplayTest",
    "Replays an artifact and compares its outputs with the golden; part of `scons test`, and a target by its name.",
    (
        Attribute("name", (str,), "the name of the target", required=True),
        Attribute("artifact", (str, Path), "the artifact's directory", required=True),
        next(attribute for attribute in ARTIFACT.attributes if attribute.name == "platform"),
        Attribute("data", (str, Path), "another directory with in/ and out/ instead of the artifact's data/"),
        Attribute("rtol", _NUMBER, "relative tolerance (default: RTOL=, else what the artifact says, else 1e-5)"),
        Attribute("atol", _NUMBER, "absolute tolerance (default: ATOL=, else what the artifact says, else 1e-5)"),
        Attribute("comparators", (dict,), "output name to comparator, such as {'y': 'ratio_allclose(atol=1e-3)'}"),
        Attribute("tags", (list, tuple), "names that TAGS= selects by"),
    ),
)


def declare_replay_test(env: Any, **given: Any) -> Any:
    """Implements the rule; returns the alias of the test.

    Only a test that is asked for reads its artifact; what is wrong with that is a failure of this test, not of others.
    """
    values = REPLAY_TEST.check(given)
    name, tags = values["name"], set(values["tags"] or ())
    workspace = workspace_of(env)
    wanted = {tag for tag in workspace.options["TAGS"].split(",") if tag}
    if not workspace.tests and wanted:
        env.AlwaysBuild(env.Alias("test", [], Action(_check_tags, None)))
    workspace.tests[name] = tags
    chosen = not wanted or bool(wanted & tags)
    if not _asked_for(name, chosen):
        return env.Alias(name) if COMMAND_LINE_TARGETS else env.AlwaysBuild(env.Alias(name, [], Action(_unread, None)))
    try:
        replay = _declare_test(env, values)
    except (ArtifactError, ToolchainError) as error:
        workspace.broken[name] = str(error)
        test = env.Alias(name, [], Action(_report_broken, None))
    else:
        test = env.Alias(name, replay, Action(finish_replays, None))
    env.AlwaysBuild(test)
    if chosen:
        env.Alias("test", test)
    return test


def _asked_for(name: str, chosen: bool) -> bool:
    """Whether a test may have to run. A target that is not ours may be an alias of the workspace's own."""
    targets = list(map(str, COMMAND_LINE_TARGETS))
    if name in targets or any(target not in TARGETS for target in targets):
        return True
    return "test" in targets and chosen


def _declare_test(env: Any, values: Mapping[str, Any]) -> Any:
    targets = declare_artifact(env, dir=values["artifact"], platform=values["platform"])
    update_compile_commands(workspace_of(env), targets)
    chosen = {key: float(values[key.lower()]) for key in ("RTOL", "ATOL") if values[key.lower()] is not None}
    node = declare_replay(env, targets, values["data"], chosen, values["comparators"] or {}, alone=False)
    workspace_of(env).tested.add(_results(node[0]))
    return node


def _check_tags(target: Any, source: Any, env: Any) -> int:
    """TAGS= that choose no test are a mistake."""
    workspace = workspace_of(env)
    known = set().union(*workspace.tests.values())
    if known & set(workspace.options["TAGS"].split(",")):
        return 0
    there_are = f"there are: {', '.join(sorted(known))}" if known else "no test has tags"
    complain(f"scons: *** TAGS={workspace.options['TAGS']}: no test has one of these; {there_are}")
    return EXIT_STATUS["usage_error"]


def _report_broken(target: Any, source: Any, env: Any) -> int:
    complain(f"{target[0]}: {workspace_of(env).broken[str(target[0])]}")
    return EXIT_STATUS["usage_error"]


def _unread(target: Any, source: Any, env: Any) -> int:
    """The target of a test that nobody named, as by ``Default``."""
    complain(f"scons: {target[0]}: a test runs where it is named: scons {target[0]}")
    return EXIT_STATUS["usage_error"]


def finish_replays(target: Any, source: Any, env: Any) -> int:
    """Show those of ``source`` that did not have to run; the status of the first that did not pass."""
    show_results(target, source, env)
    found = [_results(node) for node in source if node.name == "verdict.json"]
    for results in found:
        if results not in workspace_of(env).replayed:
            _show_cached(workspace_of(env), results)
    verdicts = (read_verdict(results / "verdict.json") for results in found)
    return next((status for verdict in verdicts if (status := _status(workspace_of(env), verdict.exit_status))), 0)


def show_results(target: Any, source: Any, env: Any) -> None:
    """Let OUT show the results of the replays in ``source``, those that did not have to run too."""
    for results in [_results(node) for node in source if node.name == "verdict.json"]:
        show(results)
        note_use(results, results in workspace_of(env).tested)


def _results(node: Any) -> Path:
    return Path(node.get_abspath()).parent


def declare_replay(
    env: Any,
    targets: ArtifactTargets,
    data: str | Path | None = None,
    chosen: Mapping[str, Any] | None = None,
    comparators: Mapping[str, str] | None = None,
    tolerant: bool = False,
    alone: bool = True,
) -> Any:
    """The node of one replay: verdict.json, made from the binaries, the interface, the data and the options.

    ``chosen`` overrides options of the command line. A ``tolerant`` node counts as made whatever the verdict is, so
    that a tool that looks at it runs; it is made again the next time if the verdict is not a good one. One that is not
    ``alone`` may run while others do: its report is printed in one piece.
    """
    workspace = workspace_of(env)
    options = _options(workspace, targets.platform) | dict(chosen or {})
    data = data or workspace.options["DATA"] or None
    data_dir = Path(os.path.abspath(workspace.top / data)) if data else None
    found = snapshot(targets.artifact, None if is_reference(data, workspace.top) else data_dir)
    if is_reference(data, workspace.top):  # made by the replay from the artifact's own data
        data_dir = Path(REFERENCE)
    rings = {name: value for name, value in os.environ.items() if name.startswith("PTO2_RING_")}
    way = configuration(targets.platform, options, str(data or ""), targets.variant, comparators or {}, rings)
    results = targets.output / REPLAYS / way.name
    if results in workspace.replays:
        return workspace.replays[results]
    step = _replay_step(workspace, targets, way, data_dir, options, comparators or {}, found, alone)
    node = env.Command(
        escape(str(results / "verdict.json")),
        [*targets.all, *(env.File(escape(str(path))) for path in _files(targets, found))],
        Action(_replay, _announce),
        PYPTO_REPLAY=Replay(targets, results, step, tolerant),
    )
    env.Precious(node)
    workspace.replays[results] = env.AlwaysBuild(node)
    workspace.configurations[results] = way
    workspace.steps[results] = step
    return node


@dataclass(frozen=True)
class Replay:
    """One replay: what it runs, where its results go, the step that runs it."""

    targets: ArtifactTargets
    results: Path
    step: Step
    tolerant: bool


def _replay_step(
    workspace: Workspace,
    targets: ArtifactTargets,
    way: Configuration,
    data_dir: Path | None,
    options: Mapping[str, Any],
    comparators: Mapping[str, str],
    found: Snapshot,
    alone: bool,
) -> Step:
    """The run itself. What it leaves is one result: verdict, outputs and records belong together."""
    simpler = targets.embedded is None
    embedded = [] if simpler else [Path(targets.embedded.get_abspath())]
    action = python_tool(
        workspace,
        "pypto_build.interop.run" if simpler else "pypto_build.replay",
        _argv(targets, workspace, way.name, data_dir, options, comparators),
        name=f"{REPLAYS}/{way.name}",
        inputs=[*embedded, targets.interface, *targets.binary_paths, *_files(targets, found)],
        tree=f"{REPLAYS}/{way.name}",
        good=(0, EXIT_STATUS["unchecked"]),
        settings={"simpler": workspace.simpler.identity} if simpler else {},
        unkeyed=("--timeout", str(workspace.options["TIMEOUT"])),
        private=(str(targets.output / REPLAYS),),
    )
    return Step(
        workspace.place(targets.output),
        action,
        "[replay] run",
        f"{targets.artifact.name} {way}".rstrip(),
        spawn=run_streaming if alone else run_whole,
        otherwise=_why_again(workspace, targets.output / action.tree / "verdict.json"),
        again=workspace.options["FORCE"] or not targets.platform.simulated,
        recorded=targets.platform.simulated,
    )


def _why_again(workspace: Workspace, verdict: Path) -> str:
    """Why a replay runs whose inputs are those of the last time."""
    if workspace.options["FORCE"]:
        return "FORCE=1"
    return "the last run did not pass" if verdict.exists() else "there is no verdict"


def _announce(target: Any, source: Any, env: Any) -> str:
    """With -n, the line of a replay that would run."""
    step = env["PYPTO_REPLAY"].step
    return step.line() if GetOption("no_exec") and not step.proven else ""


def _replay(target: Any, source: Any, env: Any) -> int:
    """Replay if nothing is proven of it; the status of what it came to."""
    workspace = workspace_of(env)
    replay: Replay = env["PYPTO_REPLAY"]
    if status := replay.targets.ensure(workspace):
        return status
    replay.results.mkdir(parents=True, exist_ok=True)
    make_room(replay.results, workspace.replays.keys())
    outcome = perform(workspace, replay.step)
    if outcome.how in ("made", "failed"):
        workspace.replayed.add(replay.results)
    if outcome.note and outcome.how == "failed":
        return EXIT_STATUS["build_error"]
    ended = outcome.how in ("made", "failed") and not replay.tolerant
    return _status(workspace, outcome.status) if ended else 0  # the verdict of one that did not run tells the rest


def _status(workspace: Workspace, status: int) -> int:
    """The exit status, with what the user allowed."""
    allowed = workspace.options["ALLOW_UNCHECKED"] and status == EXIT_STATUS["unchecked"]
    return 0 if allowed else status


def _show_cached(workspace: Workspace, results: Path) -> None:
    """Say what an unchanged replay gave, and mark it in its verdict."""
    verdict, way = results / "verdict.json", workspace.configurations[results]
    result = read_verdict(verdict)
    if not result.cached:
        result.cached = True
        write_verdict(result, verdict)
        step = workspace.steps[results]
        step.place.amend(step.action, f"{step.action.tree}/{verdict.name}")
    outputs = ", ".join(f"'{output.name}'" for output in result.outputs) or "no outputs"
    word = "PASS" if result.status == "pass" else "UNCHECKED"
    tasks = f"{result.tasks} task{'' if result.tasks == 1 else 's'}"
    subject = f"{result.artifact} {result.platform} {way}".rstrip()
    line = f"[RUN] {word} (cached)  {subject}: {outputs}, {tasks}; FORCE=1 runs it again\n"
    sys.stdout.write(line)  # whole, while other threads print too


def _argv(
    targets: ArtifactTargets,
    workspace: Workspace,
    results: str,
    data_dir: Path | None,
    options: Mapping[str, Any],
    comparators: Mapping[str, str],
) -> list[str]:
    words = [str(targets.artifact.root)]
    words += ["--platform", targets.platform.name, "--build-dir", str(targets.output), "--results", results]
    words += ["--embedded", targets.embedded.get_abspath()] if targets.embedded else []
    words += ["--binaries", str(targets.binaries_dir)] if targets.variant else []
    words += ["--data", str(data_dir)] if data_dir else []
    for name, value in options.items():
        if value is True:
            words.append(RUN_OPTIONS[name].flag)
        elif value != RUN_OPTIONS[name].default:
            words += [RUN_OPTIONS[name].flag, str(value)]
    for output, comparator in comparators.items():
        words += ["--comparator", f"{output}={comparator}"]
    return words


def _options(workspace: Workspace, platform: Platform) -> dict[str, Any]:
    """The options that the replay tool of this run takes; one that is for another is a mistake."""
    runtime = workspace.runtime(platform)
    options = workspace.options.of_the_run
    for name, value in list(options.items()):
        knowing = RUN_OPTIONS[name].runtimes
        if runtime not in knowing and EMBEDDED not in knowing:  # the engine of the others refuses what is for ours
            if value != RUN_OPTIONS[name].default:
                only = knowing[0]
                raise ArtifactError(f"{name}={value}", f"has no effect with RUNTIME={runtime}", f"add RUNTIME={only}")
            del options[name]
    return options | ({"RUNTIME": runtime} if "RUNTIME" in options else {})


def _files(targets: ArtifactTargets, found: Snapshot) -> list[Path]:
    beside = [targets.artifact.root / name for name in ("compiled_meta.json", "golden.py")]
    return [*found.inputs.values(), *found.outputs.values(), *(path for path in beside if path.exists())]
