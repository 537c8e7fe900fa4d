"""``ReplayTest``: run an artifact on fixed data and compare with its golden."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from SCons.Action import Action
from SCons.Script import COMMAND_LINE_TARGETS

from pypto_build.artifact import ArtifactError, Snapshot, snapshot
from pypto_build.artifact.snapshot import REFERENCE, is_reference
from pypto_build.replay.results import REPLAYS, show
from pypto_build.replay.verdict import EXIT_STATUS, Verdict, read_verdict, write_verdict
from pypto_build.rules.actions import command, complain, run_streaming, run_whole
from pypto_build.rules.artifact import ARTIFACT, ArtifactTargets, declare_artifact
from pypto_build.rules.attributes import Attribute, Rule
from pypto_build.rules.compile_commands import update_compile_commands
from pypto_build.rules.configuration import Configuration, configuration, make_room, note_use
from pypto_build.rules.options import OPTIONS
from pypto_build.rules.reason import setting
from pypto_build.rules.sources import tool_digest
from pypto_build.rules.targets import TARGETS
from pypto_build.rules.workspace import Workspace, escape, workspace_of
from pypto_build.toolchain import Platform, ToolchainError
from pypto_build.toolchain.python import own_tool

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
            _show_cached(results / "verdict.json", workspace_of(env).configurations[results])
    return next((status for results in found if (status := read_verdict(results / "verdict.json").exit_status)), 0)


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
    interface = next(node for node in targets.config if str(node).endswith("interface.json"))
    argv = _argv(targets, workspace, way.name, data_dir, options, comparators or {})
    verdict = results / "verdict.json"
    run = command(
        "[replay] run",
        argv,
        temporary=False,
        show=lambda _: f"{targets.artifact.name} {way}".rstrip(),
        otherwise=_why_again(workspace, verdict),
        tolerant=tolerant,
    )
    node = env.Command(
        escape(str(verdict)),
        [
            *([targets.embedded] if targets.embedded else []),
            interface,
            targets.binaries,
            *_files(env, targets, found),
        ],
        [Action(_prepare_run, None), run, Action(_note_run, None)],
        SPAWN=run_streaming if alone else run_whole,
    )
    tools = tool_digest("replay") + (tool_digest("interop") if targets.embedded is None else "")
    env.Depends(node, setting(env, "the replay tool", tools))
    if targets.embedded is None:
        env.Depends(node, setting(env, "simpler", workspace.simpler.identity))
    env.Precious(node)
    if workspace.options["FORCE"] or not targets.platform.simulated or not _has_passed(verdict):
        env.AlwaysBuild(node)
    workspace.replays[results] = node
    workspace.configurations[results] = way
    return node


def _why_again(workspace: Workspace, verdict: Path) -> str:
    """Why a replay runs whose inputs are those of the last time."""
    if workspace.options["FORCE"]:
        return "FORCE=1"
    return "the last run did not pass" if verdict.exists() else "there is no verdict"


def _prepare_run(target: Any, source: Any, env: Any) -> None:
    make_room(_results(target[0]), workspace_of(env).replays.keys())


def _note_run(target: Any, source: Any, env: Any) -> None:
    workspace_of(env).replayed.add(_results(target[0]))


def _show_cached(verdict: Path, way: Configuration) -> None:
    """Say what an unchanged replay gave, and mark it in its verdict."""
    result = read_verdict(verdict)
    if not result.cached:
        result.cached = True
        write_verdict(result, verdict)
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
    tool = "pypto_build.replay" if targets.embedded else "pypto_build.interop.run"
    words = [*own_tool(tool), str(targets.artifact.root)]
    words += ["--platform", targets.platform.name, "--build-dir", str(targets.output), "--results", results]
    words += ["--embedded", targets.embedded.get_abspath()] if targets.embedded else []
    words += ["--binaries", str(targets.binaries_dir)] if targets.variant else []
    words += ["--data", str(data_dir)] if data_dir else []
    for name, value in options.items():
        if value is True:
            words.append(OPTIONS[name].flag)
        elif value != OPTIONS[name].default:
            words += [OPTIONS[name].flag, str(value)]
    for output, comparator in comparators.items():
        words += ["--comparator", f"{output}={comparator}"]
    return [*map(escape, words), "$(", "--timeout", str(workspace.options["TIMEOUT"]), "$)"]


def _options(workspace: Workspace, platform: Platform) -> dict[str, Any]:
    """The options that the replay tool of this run takes; one that is for another is a mistake."""
    runtime = workspace.runtime(platform)
    options = workspace.options.of_the_run
    for name, value in list(options.items()):
        if OPTIONS[name].runtime not in ("", runtime):
            if value != OPTIONS[name].default:
                only = OPTIONS[name].runtime
                raise ArtifactError(f"{name}={value}", f"has no effect with RUNTIME={runtime}", f"add RUNTIME={only}")
            del options[name]
    return options | ({"RUNTIME": runtime} if "RUNTIME" in options else {})


def _files(env: Any, targets: ArtifactTargets, found: Snapshot) -> list[Any]:
    beside = [targets.artifact.root / name for name in ("compiled_meta.json", "golden.py")]
    paths = [*found.inputs.values(), *found.outputs.values(), *(path for path in beside if path.exists())]
    return [env.File(escape(str(path))) for path in paths]


def _has_passed(verdict: Path) -> bool:
    """Whether the verdict on disk is a passing one: only such a run may stand for another."""
    try:
        result: Verdict = read_verdict(verdict)
    except (OSError, msgspec.DecodeError):
        return False
    return result.exit_status == 0
