"""``ReplayTest``: run an artifact on fixed data and compare with its golden."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from SCons.Action import Action
from SCons.Script import COMMAND_LINE_TARGETS, GetOption
from SCons.Script.Main import OptionsParser

from pypto_build import terminal
from pypto_build.artifact import ArtifactError, is_distributed
from pypto_build.artifact.atomic import write_bytes
from pypto_build.artifact.params import Param
from pypto_build.facts.outcomes import Outcome
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import is_tolerance
from pypto_build.replay.verdict import EXIT_STATUS
from pypto_build.rules.artifact import ArtifactTargets, declare_loaded
from pypto_build.rules.compile_commands import update_compile_commands
from pypto_build.rules.completion import open_artifact
from pypto_build.rules.machinery.attributes import PLATFORM, Attribute, Rule, RuleError
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.workspace import DECLARED_TESTS, Workspace, workspace_of
from pypto_build.rules.outcomes import failed_tests, outcomes_of
from pypto_build.rules.replay import (
    Replays,
    declare_replay,
    finish_replays,
    outcome_of_replay,
    replays_of,
)
from pypto_build.rules.targets import TARGETS
from pypto_build.rules.variants import WEAK
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.devices import sign_of_hardware

_NUMBER = (int, float)

REPLAY_TEST = Rule(
    "ReplayTest",
    "Replays an artifact and compares its outputs with the golden; part of `scons test`, and a target by its name.",
    (
        Attribute("name", (str,), "the name of the target", required=True),
        Attribute("artifact", (str, Path), "the artifact's directory", required=True),
        PLATFORM,
        Attribute("data", (str, Path), "another directory with in/ and out/ instead of the artifact's data/"),
        Attribute("golden", (str, Path), "another directory with a .pt file for each output than the data's out/"),
        Attribute(
            "signature", (list, tuple, dict), "directions of the tensor parameters, such as ['IN', 'OUT'], or by name"
        ),
        Attribute("rtol", _NUMBER, "relative tolerance (default: RTOL=, else what the artifact says, else 1e-5)"),
        Attribute("atol", _NUMBER, "absolute tolerance (default: ATOL=, else what the artifact says, else 1e-5)"),
        Attribute("memory", (str,), "'weak': stores as late as the device allows (default: MEMORY=)"),
        Attribute("world", (int,), "ranks of a distributed program (default: WORLD=, else those it was compiled for)"),
        Attribute("comparators", (dict,), "output name to comparator, such as {'y': 'ratio_allclose(atol=1e-3)'}"),
        Attribute("tags", (list, tuple), "names that TAGS= selects by"),
    ),
)


def declare_replay_test(env: Environment, **given: Any) -> Nodes:
    """Implements the rule; returns the alias of the test.

    Only a test that is asked for reads its artifact; what is wrong with that is a failure of this test, not of others.
    """
    values = REPLAY_TEST.check(given)
    if workspace_of(env).options["TEST"] == values["name"] and "triage" in map(str, COMMAND_LINE_TARGETS):
        from pypto_build.rules.triage_of_test import triage_test

        triage_test(env, values["name"], lambda: _declare(env, values))
    return declare_test(env, values, _declare)


def _list_tests(workspace: Workspace, replays: Replays) -> None:
    """Leave the names, those that loops made too, where completion finds them; nothing where nothing was built."""
    path, text = workspace.build_dir / DECLARED_TESTS, "".join(f"{name}\n" for name in sorted(replays.tags))
    if GetOption("clean") or not workspace.build_dir.is_dir():
        return
    with suppress(OSError):
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            write_bytes(path, text.encode())


def declare_test(
    env: Environment, values: Mapping[str, Any], declare: Callable[[Environment, Mapping[str, Any]], Nodes]
) -> Nodes:
    """The alias of a test that ``declare`` makes the target of, if it is asked for."""
    name, tags = values["name"], set(values["tags"] or ())
    workspace, replays = workspace_of(env), env["PYPTO_REPLAYS"]
    if not replays.tags:
        _prepare(env)
        workspace.at_end.append(partial(_list_tests, workspace, replays))
    replays.tags[name] = tags
    chosen = _chosen(workspace, name, tags)
    if not _asked_for(name, chosen):
        return env.Alias(name) if COMMAND_LINE_TARGETS else env.AlwaysBuild(env.Alias(name, [], Action(_unread, None)))
    outcomes, output = outcomes_of(workspace), None
    try:
        missing = _missing_platform(workspace, values["platform"])
        replay: Nodes = () if missing else declare(env, values)
        output = next((found.targets.output for found in replays_of(env, replay)), None)
        test = _handed_over(env, values, replay) if workspace.options["SCHEDULER"] and chosen else ()
        test = test or env.Alias(name, replay, Action(_finish, None), PYPTO_TEST=name, PYPTO_SKIPPED=missing)
    except (ArtifactError, ToolchainError) as error:
        replays.broken[name] = str(error)
        test = env.Alias(name, [], Action(_report_broken, None))
    env.AlwaysBuild(test)
    if _is_named(name, chosen):
        outcomes.expect(name, output)
    if chosen:
        env.Alias("test", test)
    return test


def _handed_over(env: Environment, values: Mapping[str, Any], replay: Nodes) -> Nodes:
    """The alias of a test that the farm of SCHEDULER= does; none where it is done here."""
    from pypto_build.rules.many.farm_tests import can_hand_over, hand_over

    found = replays_of(env, replay)
    return hand_over(env, values["name"], values, found[0]) if can_hand_over(values, found) else ()


def _prepare(env: Environment) -> None:
    """Before the first test: what `scons test` does besides running tests. All of them run, whatever fails."""
    workspace = workspace_of(env)
    known = {"TAGS": _check_tags, "FAILED": _check_failed}
    checks = [check for option, check in known.items() if workspace.options[option]]
    env.AlwaysBuild(env.Alias("test", [], [Action(check, None) for check in (*checks, _check_all)]))
    if _all_are_run():
        workspace.progress.hold = True  # until the others have run
        OptionsParser.values.keep_going = True


def _all_are_run() -> bool:
    return "test" in map(str, COMMAND_LINE_TARGETS)


def _check_all(target: Nodes, source: Nodes, env: Environment) -> int:
    """The status of `scons test`: tests that failed have let the others run."""
    return int(any(outcome.failed for outcome in outcomes_of(workspace_of(env)).tests))


def _chosen(workspace: Workspace, name: str, tags: Collection[str]) -> bool:
    """Whether `scons test` runs a test."""
    wanted = {tag for tag in workspace.options["TAGS"].split(",") if tag}
    again = not workspace.options["FAILED"] or name in failed_tests(workspace.build_dir)
    return again and (not wanted or not wanted.isdisjoint(tags))


def _missing_platform(workspace: Workspace, platform: str | None) -> str:
    """Why a test cannot run here: it names a platform that this machine has not, and nobody insists on it."""
    if not platform or PLATFORMS[platform].simulated or workspace.options["HARDWARE"]:
        return ""
    return "" if sign_of_hardware() else f"{platform}: no toolkit and no device here"


def _asked_for(name: str, chosen: bool) -> bool:
    """Whether a test may have to run. A target that is not ours may be an alias of the workspace's own."""
    targets = [target for target in map(str, COMMAND_LINE_TARGETS) if target != "help"]
    return _is_named(name, chosen) or any(target not in TARGETS for target in targets)


def _is_named(name: str, chosen: bool) -> bool:
    """Whether a test has to run."""
    return name in map(str, COMMAND_LINE_TARGETS) or (_all_are_run() and chosen)


def _declare(env: Environment, values: Mapping[str, Any]) -> Nodes:
    """The target: the replay."""
    workspace = workspace_of(env)
    root = Path(os.path.abspath(workspace.top / values["artifact"]))
    weak = values["memory"]
    if weak not in (None, "weak"):
        raise ArtifactError(f"memory={weak!r}", "is no model of memory", "it takes 'weak'")
    variant = WEAK.directory if weak else None
    if is_distributed(root):
        from pypto_build.rules.distributed import declare_whole

        targets = declare_whole(env, root, values["platform"], variant)
    elif values["world"] is not None:
        raise ArtifactError(f"world={values['world']}", f"{root.name} runs on one chip", "leave it out")
    else:
        artifact = open_artifact(workspace, root, values["platform"])
        targets = declare_loaded(env, artifact, values["platform"], variant)
    for part in targets.parts or (targets,):
        update_compile_commands(workspace, part)
    golden = Path(os.path.abspath(workspace.top / values["golden"])) if values["golden"] else None
    if golden or values["signature"]:
        from pypto_build.rules.contracts import check_contract

        check_contract(_params(targets), values["name"], values["signature"], golden)
    chosen: dict[str, Any] = {"WORLD": values["world"]} if values["world"] is not None else {}
    chosen |= {"MEMORY": weak} if weak else {}
    chosen |= _tolerances(values)
    comparators = values["comparators"] or {}
    return declare_replay(env, targets, values["data"], chosen, comparators, golden=golden, alone=False, of_a_test=True)


def _tolerances(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the tolerances that a test gives."""
    given = {key: values[key.lower()] for key in ("RTOL", "ATOL") if values[key.lower()] is not None}
    for key, value in given.items():
        if not is_tolerance(value):
            raise RuleError(f"ReplayTest: {key.lower()}={value!r} is no tolerance; write a finite number, 0 or more")
    return {key: float(value) for key, value in given.items()}


def _params(targets: ArtifactTargets) -> Sequence[Param]:
    """The parameters of an artifact of either kind."""
    if targets.parts:
        from pypto_build.artifact.distributed import interface_of, load_distributed

        return interface_of(load_distributed(targets.artifact.root)).params
    from pypto_build.artifact.interface import sign

    return sign(targets.artifact).interface.params


def _finish(target: Nodes, source: Nodes, env: Environment) -> int:
    """Tell of a test that ran, or did not have to."""
    workspace, name = workspace_of(env), env["PYPTO_TEST"]
    outcomes = outcomes_of(workspace)
    if env["PYPTO_SKIPPED"]:
        outcomes.add(Outcome(name, "SKIPPED", reason=env["PYPTO_SKIPPED"]))
        return 0
    status = finish_replays(target, source, env)
    refused = env["PYPTO_REPLAYS"].refused.get(name, [])
    found = [outcome_of_replay(workspace, replay, name) for replay in replays_of(env, source)]
    outcomes.add(_one_of(name, found, refused))
    status = status or next((status for status, _ in refused if status), 0)
    return 0 if _all_are_run() else status


def _one_of(name: str, found: list[Outcome], refused: list[tuple[int, str]]) -> Outcome:
    """The outcome of a test of several parts: that of the first that failed, else of the first."""
    wrong = [Outcome(name, "ERROR", reason=reason, failed=True) for status, reason in refused if status]
    skipped = [Outcome(name, "SKIPPED", reason=reason) for _, reason in refused]
    outcome = next((one for one in (*found, *wrong) if one.failed), (*found, *skipped)[0])
    outcome.seconds = sum(one.seconds for one in found)
    return outcome


def _check_tags(target: Nodes, source: Nodes, env: Environment) -> int:
    """TAGS= that choose no test are a mistake."""
    replays: Replays = env["PYPTO_REPLAYS"]
    given = workspace_of(env).options["TAGS"]
    known = set().union(*replays.tags.values())
    if known & set(given.split(",")):
        return 0
    there_are = f"there are: {', '.join(sorted(known))}" if known else "no test has tags"
    terminal.complain(f"scons: *** TAGS={given}: no test has one of these; {there_are}")
    return EXIT_STATUS["usage_error"]


def _check_failed(target: Nodes, source: Nodes, env: Environment) -> None:
    """FAILED=1 where nothing failed."""
    if not failed_tests(workspace_of(env).build_dir):
        terminal.say("[test] no test failed when it last ran; scons test runs all of them")


def _report_broken(target: Nodes, source: Nodes, env: Environment) -> int:
    replays: Replays = env["PYPTO_REPLAYS"]
    name = str(target[0])
    said = replays.broken[name].removeprefix(f"{name}: ")
    reason, said = said.partition(";")[0], f"{name}: {said}"
    outcomes_of(workspace_of(env)).add(Outcome(name, "ERROR", reason=reason, text=f"{said}\n", failed=True))
    return 0 if _all_are_run() else EXIT_STATUS["usage_error"]


def _unread(target: Nodes, source: Nodes, env: Environment) -> int:
    """The target of a test that nobody named, as by ``Default``."""
    terminal.complain(f"scons: {target[0]}: a test runs where it is named: scons {target[0]}")
    return EXIT_STATUS["usage_error"]
