"""``ReplayTest``: run an artifact on fixed data and compare with its golden."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from SCons.Action import Action
from SCons.Script import COMMAND_LINE_TARGETS

from pypto_build.artifact import ArtifactError
from pypto_build.replay.verdict import EXIT_STATUS
from pypto_build.rules.artifact import declare_artifact
from pypto_build.rules.compile_commands import update_compile_commands
from pypto_build.rules.machinery.actions import complain
from pypto_build.rules.machinery.attributes import PLATFORM, Attribute, Rule
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.workspace import workspace_of
from pypto_build.rules.replay import Replays, declare_replay, finish_replays
from pypto_build.rules.targets import TARGETS
from pypto_build.toolchain import ToolchainError

_NUMBER = (int, float)

REPLAY_TEST = Rule(
    "ReplayTest",
    "Replays an artifact and compares its outputs with the golden; part of `scons test`, and a target by its name.",
    (
        Attribute("name", (str,), "the name of the target", required=True),
        Attribute("artifact", (str, Path), "the artifact's directory", required=True),
        PLATFORM,
        Attribute("data", (str, Path), "another directory with in/ and out/ instead of the artifact's data/"),
        Attribute("rtol", _NUMBER, "relative tolerance (default: RTOL=, else what the artifact says, else 1e-5)"),
        Attribute("atol", _NUMBER, "absolute tolerance (default: ATOL=, else what the artifact says, else 1e-5)"),
        Attribute("comparators", (dict,), "output name to comparator, such as {'y': 'ratio_allclose(atol=1e-3)'}"),
        Attribute("tags", (list, tuple), "names that TAGS= selects by"),
    ),
)


def declare_replay_test(env: Environment, **given: Any) -> Nodes:
    """Implements the rule; returns the alias of the test.

    Only a test that is asked for reads its artifact; what is wrong with that is a failure of this test, not of others.
    """
    return declare_test(env, REPLAY_TEST.check(given), _declare)


def declare_test(
    env: Environment, values: Mapping[str, Any], declare: Callable[[Environment, Mapping[str, Any]], Nodes]
) -> Nodes:
    """The alias of a test that ``declare`` makes the target of, if it is asked for."""
    name, tags = values["name"], set(values["tags"] or ())
    wanted = {tag for tag in workspace_of(env).options["TAGS"].split(",") if tag}
    replays: Replays = env["PYPTO_REPLAYS"]
    if not replays.tags and wanted:
        env.AlwaysBuild(env.Alias("test", [], Action(_check_tags, None)))
    replays.tags[name] = tags
    chosen = not wanted or bool(wanted & tags)
    if not _asked_for(name, chosen):
        return env.Alias(name) if COMMAND_LINE_TARGETS else env.AlwaysBuild(env.Alias(name, [], Action(_unread, None)))
    try:
        test = declare(env, values)
    except (ArtifactError, ToolchainError) as error:
        replays.broken[name] = str(error)
        test = env.Alias(name, [], Action(_report_broken, None))
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


def _declare(env: Environment, values: Mapping[str, Any]) -> Nodes:
    """The target: the replay."""
    targets = declare_artifact(env, dir=values["artifact"], platform=values["platform"])
    update_compile_commands(workspace_of(env), targets)
    chosen = {key: float(values[key.lower()]) for key in ("RTOL", "ATOL") if values[key.lower()] is not None}
    comparators = values["comparators"] or {}
    replay = declare_replay(env, targets, values["data"], chosen, comparators, alone=False, of_a_test=True)
    return env.Alias(values["name"], replay, Action(finish_replays, None))


def _check_tags(target: Nodes, source: Nodes, env: Environment) -> int:
    """TAGS= that choose no test are a mistake."""
    replays: Replays = env["PYPTO_REPLAYS"]
    given = workspace_of(env).options["TAGS"]
    known = set().union(*replays.tags.values())
    if known & set(given.split(",")):
        return 0
    there_are = f"there are: {', '.join(sorted(known))}" if known else "no test has tags"
    complain(f"scons: *** TAGS={given}: no test has one of these; {there_are}")
    return EXIT_STATUS["usage_error"]


def _report_broken(target: Nodes, source: Nodes, env: Environment) -> int:
    replays: Replays = env["PYPTO_REPLAYS"]
    complain(f"{target[0]}: {replays.broken[str(target[0])]}")
    return EXIT_STATUS["usage_error"]


def _unread(target: Nodes, source: Nodes, env: Environment) -> int:
    """The target of a test that nobody named, as by ``Default``."""
    complain(f"scons: {target[0]}: a test runs where it is named: scons {target[0]}")
    return EXIT_STATUS["usage_error"]
