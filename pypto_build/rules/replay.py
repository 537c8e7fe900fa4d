"""One replay of an artifact: the node of its verdict, the step that runs it, and what is said of one already run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from SCons.Action import Action as SConsAction

from pypto_build.artifact import ArtifactError, Snapshot, snapshot
from pypto_build.artifact.snapshot import REFERENCE, is_reference
from pypto_build.facts.platforms import Platform
from pypto_build.facts.run_options import EMBEDDED, RUN_OPTIONS
from pypto_build.proof import Action
from pypto_build.replay.results import REPLAYS, show
from pypto_build.replay.verdict import EXIT_STATUS, read_verdict, write_verdict
from pypto_build.rules.artifact import ArtifactTargets
from pypto_build.rules.machinery.actions import run_streaming, run_whole
from pypto_build.rules.machinery.configuration import Configuration, configuration, evict, note_use
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.steps import Step, announce, perform
from pypto_build.rules.machinery.workspace import Workspace, escape, workspace_of
from pypto_build.toolchain.python import own_tool


def finish_replays(target: Nodes, source: Nodes, env: Environment) -> int:
    """Show those of ``source`` that did not have to run; the status of the first that did not pass."""
    show_results(target, source, env)
    found = _replays_of(env, source)
    for replay in found:
        if not replay.ran:
            _show_cached(replay)
    verdicts = (read_verdict(replay.results / "verdict.json") for replay in found)
    workspace = workspace_of(env)
    statuses = (
        _status(workspace, replay, verdict.exit_status) for replay, verdict in zip(found, verdicts, strict=True)
    )
    return next(filter(None, statuses), 0)


def show_results(target: Nodes, source: Nodes, env: Environment) -> None:
    """Let OUT show the results of the replays in ``source``, those that did not have to run too."""
    for replay in _replays_of(env, source):
        show(replay.results)
        note_use(replay.results, replay.of_a_test)


def _replays_of(env: Environment, nodes: Nodes) -> list[Replay]:
    replays: Replays = env["PYPTO_REPLAYS"]
    return [replays.by_results[Path(node.get_abspath()).parent] for node in nodes if node.name == "verdict.json"]


def declare_replay(
    env: Environment,
    targets: ArtifactTargets,
    data: str | Path | None = None,
    chosen: Mapping[str, Any] | None = None,
    comparators: Mapping[str, str] | None = None,
    tolerant: bool = False,
    alone: bool = True,
    of_a_test: bool = False,
    judge: str = "",
    limits: Mapping[str, str] | None = None,
    unchecked: bool = False,
    label: str = "",
) -> Nodes:
    """The node of one replay: verdict.json, which depends on the binaries, the interface, the data and the options.

    ``chosen`` overrides options of the command line. A ``tolerant`` replay counts as run whatever the verdict is, so
    that a tool that looks at it runs; it runs again the next time if the verdict is not a good one. One that is not
    ``alone`` may run while others do: its report is printed in one piece. Results ``of_a_test`` are kept. ``judge``,
    ``limits``, ``unchecked`` and ``label`` are those of a `Subject`.
    """
    workspace = workspace_of(env)
    replays: Replays = env["PYPTO_REPLAYS"]
    options = _options(workspace, targets.platform) | dict(chosen or {})
    data = data or workspace.options["DATA"] or None
    data_dir = Path(os.path.abspath(workspace.top / data)) if data else None
    found = snapshot(targets.artifact, None if is_reference(data, workspace.top) else data_dir)
    if is_reference(data, workspace.top):  # computed by the replay from the artifact's own data
        data_dir = Path(REFERENCE)
    elif data_dir:
        workspace.data_dirs.add(data_dir)
    rings = {name: value for name, value in os.environ.items() if name.startswith("PTO2_RING_")} | dict(limits or {})
    named = data_dir.name if label and data_dir else str(data or "")
    way = configuration(targets.platform, options, named, targets.variant, comparators or {}, rings)
    results = targets.output / REPLAYS / way.name
    if known := replays.by_results.get(results):
        known.of_a_test |= of_a_test
        return known.nodes
    step = _replay_step(workspace, targets, way, data_dir, options, comparators or {}, found, alone)
    step = replace(step, action=_under(step.action, limits or {}, judge), subject=label or step.subject)
    replay = Replay(targets, results, way, step, tolerant, of_a_test, unchecked, label)
    node = env.Command(
        escape(str(results / "verdict.json")),
        [*targets.all, *(env.File(escape(str(path))) for path in _files(targets, found))],
        SConsAction(_replay, announce),
        PYPTO_REPLAY=replay,
        PYPTO_STEP=step,
    )
    env.Precious(node)
    replay.nodes = env.AlwaysBuild(node)
    replays.by_results[results] = replay
    return replay.nodes


@dataclass
class Replay:
    """One replay: what it runs, where its results go, in which way, the step that runs it; whether it ran."""

    targets: ArtifactTargets
    results: Path
    way: Configuration
    step: Step
    tolerant: bool
    of_a_test: bool
    unchecked: bool = False  # whether one without a golden passes
    label: str = ""  # of a case of a scene test
    ran: bool = False
    reached: bool = False  # whether its binaries were built
    nodes: Nodes = ()


class Replays:
    """What has been declared in one environment."""

    def __init__(self) -> None:
        self.by_results: dict[Path, Replay] = {}  # by the directories of results
        self.tags: dict[str, set[str]] = {}  # of every replay test, by its name
        self.broken: dict[str, str] = {}  # replay tests that cannot run, and why


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
    embedded = [Path(targets.embedded.get_abspath())] if targets.embedded else []
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


def _under(action: Action, limits: Mapping[str, str], judge: str) -> Action:
    """The run with further variables in its environment, and judged by a class of the user's."""
    if judge:
        tool = own_tool("pypto_build.replay")
        on_simpler = ["--on-simpler"] if action.argv[len(tool) - 1] != tool[-1] else []
        options = (*action.argv[len(tool) :], "--judge", judge, *on_simpler)
        argv = (*own_tool("pypto_build.interop.scene.run"), *options)
        action = replace(action, argv=argv, inputs=(*action.inputs, judge.partition("::")[0]))
    return replace(action, environment={**action.environment, **limits}, settings={**action.settings, **limits})


def _why_again(workspace: Workspace, verdict: Path) -> str:
    """Why a replay runs whose inputs are those of the last time."""
    if workspace.options["FORCE"]:
        return "FORCE=1"
    return "the last run did not pass" if verdict.exists() else "there is no verdict"


def _replay(target: Nodes, source: Nodes, env: Environment) -> int:
    """Replay if nothing is proven of it; the status of what it came to."""
    workspace = workspace_of(env)
    replay: Replay = env["PYPTO_REPLAY"]
    if status := replay.targets.ensure(workspace):
        return status
    replay.results.mkdir(parents=True, exist_ok=True)
    replays: Replays = env["PYPTO_REPLAYS"]
    evict(replay.results, replays.by_results.keys())
    outcome = perform(workspace, replay.step)
    replay.reached = True
    replay.ran = outcome.how in ("built", "failed")
    if outcome.note and outcome.how == "failed":
        return EXIT_STATUS["build_error"]
    ended = replay.ran and not replay.tolerant
    return (
        _status(workspace, replay, outcome.status) if ended else 0
    )  # the verdict of one that did not run tells the rest


def _status(workspace: Workspace, replay: Replay, status: int) -> int:
    """The exit status, with what the user allowed."""
    allowed = workspace.options["ALLOW_UNCHECKED"] or replay.unchecked
    return 0 if allowed and status == EXIT_STATUS["unchecked"] else status


def _show_cached(replay: Replay) -> None:
    """Say what an unchanged replay gave, and mark it in its verdict."""
    verdict, step = replay.results / "verdict.json", replay.step
    result = read_verdict(verdict)
    if not result.cached:
        result.cached = True
        write_verdict(result, verdict)
        step.place.amend(step.action, f"{step.action.tree}/{verdict.name}")
    outputs = ", ".join(f"'{output.name}'" for output in result.outputs) or "no outputs"
    word = "PASS" if result.status == "pass" else "UNCHECKED"
    tasks = f"{result.tasks} task{'' if result.tasks == 1 else 's'}"
    subject = f"{result.artifact} {result.platform} {replay.way}".rstrip()
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
    words += [word for name, value in options.items() for word in RUN_OPTIONS[name].words(value)]
    for output, comparator in comparators.items():
        words += ["--comparator", f"{output}={comparator}"]
    return words


def _options(workspace: Workspace, platform: Platform) -> dict[str, Any]:
    """The options that the replay tool of this run takes; one that is for another is a mistake."""
    runtime = workspace.runtime(platform)
    options = workspace.options.of_the_run
    for name, value in list(options.items()):
        knowing = RUN_OPTIONS[name].runtimes
        if runtime not in knowing and EMBEDDED not in knowing:  # what is for ours is refused by simpler's engine
            if value != RUN_OPTIONS[name].default:
                only = knowing[0]
                raise ArtifactError(f"{name}={value}", f"has no effect with RUNTIME={runtime}", f"add RUNTIME={only}")
            del options[name]
    return options | ({"RUNTIME": runtime} if "RUNTIME" in options else {})


def _files(targets: ArtifactTargets, found: Snapshot) -> list[Path]:
    beside = [targets.artifact.root / name for name in ("compiled_meta.json", "golden.py")]
    return [*found.inputs.values(), *found.outputs.values(), *(path for path in beside if path.exists())]
