"""The common part of all tests: a target by their name, their report line, and ``scons test``."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from SCons.Action import Action
from SCons.Script import COMMAND_LINE_TARGETS, GetOption, Main

from pypto_build import terminal
from pypto_build.artifact.files import write_bytes
from pypto_build.facts.outcomes import Outcome
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.replay.verdict import EXIT_STATUS
from pypto_build.rules.machinery.attributes import RuleError
from pypto_build.rules.machinery.deferred import SCANNER, Deferred
from pypto_build.rules.machinery.scons_types import Environment, Node, Nodes
from pypto_build.rules.machinery.steps import made_by_us
from pypto_build.rules.machinery.workspace import DECLARED_TESTS, Workspace, escape, workspace_of
from pypto_build.rules.outcomes import failed_tests, outcomes_of
from pypto_build.rules.replay import Replays, Suite, Test, finish, outcome_of_replay, replays_of
from pypto_build.rules.targets import TARGETS
from pypto_build.toolchain.devices import sign_of_hardware

#: Declares the replays of a test, and returns their nodes.
Declare = Callable[[Environment, Mapping[str, Any]], Nodes]


def declare_test(
    env: Environment,
    values: Mapping[str, Any],
    inputs: Iterable[Node],
    declare: Declare,
    result: Path | None = None,
    judge: Callable[[], Outcome] | None = None,
) -> Nodes:
    """Declare a test, whose replays ``declare`` declares when SCons reaches it and ``inputs`` are built.

    Only a requested test reads its artifact; an error in the artifact is a failure of this test, not of others. A test
    that is not a replay returns its outcome by ``judge``. Returns the node of ``result``, its verdict, which is not
    built if the test fails; without one, its alias.
    """
    name, tags = values["name"], set(values["tags"] or ())
    workspace, replays = workspace_of(env), env["PYPTO_REPLAYS"]
    if not replays.tags:
        _prepare(env)
        workspace.at_end.append(partial(_list_tests, workspace, replays))
    if name in replays.tags or name in replays.suites:
        raise RuleError(f"name={name!r}: two tests have this name; give each test its own name")
    replays.tags[name] = tags
    for suite in replays.suites.values():
        suite.add_tagged(env, name, tags)
    chosen = _chosen(workspace, name, tags)
    if not may_run(workspace, name, tags):
        return _named(name, [env.File(escape(str(result)))] if result else env.Alias(name))
    missing = _missing_platform(workspace, values["platform"])
    test = Test(name, skipped=missing, judge=judge)
    test.deferred = Deferred(env, lambda: () if missing else inputs, partial(_declare_runs, env, test, values, declare))
    target = escape(str(workspace.build_dir / f".test.{name.replace(os.sep, '.')}"))
    gate = made_by_us(
        env, env.Command(target, [], Action(_nothing, None), target_scanner=SCANNER, PYPTO_DEFERRED=test.deferred)
    )
    replays.tests[name] = test
    if result:
        workspace.deferred.append((result.parents[2], test.deferred))
    alias = env.AlwaysBuild(env.Alias(name, gate, Action(_finish, None), PYPTO_TEST=test))
    if _is_named(name, chosen) or any(name in suite for suite in replays.named_suites()):
        outcomes_of(workspace).expect(name, None)
    if chosen:
        env.Alias("test", alias)
    return _named(name, _verdict(env, gate, test, result) if result else alias)


def _named(name: str, nodes: Nodes) -> Nodes:
    """Return the nodes of a test, in the form that suites recognize."""
    for node in nodes:
        names: list[str] = getattr(node.attributes, "pypto_tests", [])
        node.attributes.pypto_tests = [*names, name]
    return nodes


def tests_of(test: str | Node) -> list[str]:
    """Return the names of the tests that a name or a node of a rule represents."""
    if isinstance(test, str):
        return [test]
    names: list[str] = getattr(test.attributes, "pypto_tests", None) or [str(test)]
    return names


def declare_suite(
    env: Environment, name: str, tests: Sequence[str], tags: Collection[str], targets: Iterable[str]
) -> Nodes:
    """Declare the suite ``name`` of ``tests`` and of all with one of ``tags``; returns its alias."""
    workspace, replays = workspace_of(env), env["PYPTO_REPLAYS"]
    if name in replays.suites or name in replays.tags or name in TARGETS:
        raise RuleError(f"name={name!r}: a test, suite or target already has this name; choose another")
    suite = replays.suites[name] = Suite(name, frozenset(tags), named=name in targets)
    if suite.named:
        run_all(workspace)
    for test in tests:
        suite.add(env, test)
    for test, test_tags in replays.tags.items():
        suite.add_tagged(env, test, test_tags)
    if suite.named:
        _expect(replays, suite, workspace)
    return env.AlwaysBuild(env.Alias(name, [], Action(_check_suite, None), PYPTO_SUITE=suite))


def _expect(replays: Replays, suite: Suite, workspace: Workspace) -> None:
    """Expect the outcomes of the tests of a suite, and of its nested suites."""
    for test in suite.tests:
        if test in replays.suites:
            _expect(replays, replays.suites[test], workspace)
        elif test in replays.tests:
            outcomes_of(workspace).expect(test, None)


def _check_suite(target: Nodes, source: Nodes, env: Environment) -> int:
    """Return the status of a requested suite, after all its tests have run."""
    suite: Suite = env["PYPTO_SUITE"]
    replays: Replays = env["PYPTO_REPLAYS"]
    unknown = [test for test in suite.tests if test not in replays.tags and test not in replays.suites]
    if unknown:
        terminal.complain(f"scons: *** TestSuite: {suite.name}: there is no test {unknown[0]}")
        return EXIT_STATUS["usage_error"]
    if not suite.tests:
        what = f"no test has one of the suite's tags ({', '.join(sorted(suite.tags))}); {_all_tags(replays)}"
        terminal.complain(f"scons: *** TestSuite: {suite.name}: {what}")
        return EXIT_STATUS["usage_error"]
    return _check_all(target, source, env)


def _nothing(target: Nodes, source: Nodes, env: Environment) -> None:
    """Do nothing: the test's own line reports what is wrong."""


def _verdict(env: Environment, gate: Nodes, test: Test, result: Path) -> Nodes:
    """Return the node of a verdict, for files that are built only if the test passes. Equal tests share one."""
    node = env.File(escape(str(result)))
    if node.has_builder():
        return [node]
    return made_by_us(env, env.Command([node], gate, Action(_judge, None), PYPTO_TEST=test))


def _judge(target: Nodes, source: Nodes, env: Environment) -> int:
    """Return the status of a test that other nodes wait for, and print the reports of its failed replays."""
    test: Test = env["PYPTO_TEST"]
    status = _status(env, test)
    if status and not workspace_of(env).verbose:
        terminal.pass_on("".join(text for replay in test.replays for text in replay.output), error=False, ours=True)
    return status


def _status(env: Environment, test: Test) -> int:
    """Show the up-to-date replays of a test, and return the status of the first that did not pass."""
    if test.broken:
        terminal.complain(f"scons: *** {test.name}: {test.broken}")
        return EXIT_STATUS["usage_error"]
    return int(test.judge().failed) if test.judge else finish(env, test.replays)


def _declare_runs(env: Environment, test: Test, values: Mapping[str, Any], declare: Declare) -> Nodes:
    """Declare the replays of a test."""
    if test.skipped:
        return ()
    workspace, nodes = workspace_of(env), declare(env, values)
    test.replays = replays_of(env, nodes) if test.judge is None else []
    outcomes = outcomes_of(workspace)
    if test.name in outcomes.expected and test.replays:
        outcomes.expected[test.name] = test.replays[0].targets.output
    if workspace.options["SCHEDULER"] and _chosen(workspace, test.name, set(values["tags"] or ())):
        from pypto_build.rules.many.farm_tests import can_hand_over, hand_over

        if can_hand_over(values, test.replays):
            test.elsewhere = True
            return hand_over(env, test.name, values, test.replays[0])
    return nodes


def _list_tests(workspace: Workspace, replays: Replays) -> None:
    """Write the names of all tests to the file for shell completion; nothing if nothing was built."""
    path, text = workspace.build_dir / DECLARED_TESTS, "".join(f"{name}\n" for name in sorted(replays.tags))
    if GetOption("clean") or not workspace.build_dir.is_dir():
        return
    with suppress(OSError):
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            write_bytes(path, text.encode())


def _prepare(env: Environment) -> None:
    """Prepare `scons test` before the first test. All tests run, even after a failure."""
    workspace = workspace_of(env)
    all_checks = {"TAGS": _check_tags, "NAMES": _check_names, "FAILED": _check_failed}
    checks = [check for option, check in all_checks.items() if workspace.options[option]]
    end = _print_names if workspace.options["LIST"] else _check_all
    env.AlwaysBuild(env.Alias("test", [], [Action(check, None) for check in (*checks, end)]))
    if "test" in map(str, COMMAND_LINE_TARGETS):
        run_all(workspace)


def run_all(workspace: Workspace) -> None:
    """Let all tests run, even after a failure, and show the failures at the end."""
    workspace.progress.hold = True
    Main.OptionsParser.values.keep_going = True  # the parser of this run: processes that fork for runs have another


def _all_are_run(env: Environment) -> bool:
    """Return True if several tests run, so that a failing one does not stop the others."""
    return "test" in map(str, COMMAND_LINE_TARGETS) or bool(env["PYPTO_REPLAYS"].named_suites())


def _check_all(target: Nodes, source: Nodes, env: Environment) -> int:
    """Return the status of `scons test`, after all tests have run."""
    return int(any(outcome.failed for outcome in outcomes_of(workspace_of(env)).tests))


def _chosen(workspace: Workspace, name: str, tags: Collection[str]) -> bool:
    """Return whether `scons test` runs a test."""
    return not workspace.options["LIST"] and _selected(workspace, name, tags)


def _selected(workspace: Workspace, name: str, tags: Collection[str]) -> bool:
    """Return whether the options select a test."""
    patterns = [pattern for pattern in workspace.options["NAMES"].split(",") if pattern]
    if patterns and not any(fnmatchcase(name, pattern) for pattern in patterns):
        return False
    tags_option = {tag for tag in workspace.options["TAGS"].split(",") if tag}
    again = not workspace.options["FAILED"] or name in failed_tests(workspace.build_dir)
    return again and (not tags_option or not tags_option.isdisjoint(tags))


def _missing_platform(workspace: Workspace, platform: str | None) -> str:
    """Return why a test cannot run here: this machine lacks its platform, and the user does not require it."""
    if not platform or PLATFORMS[platform].simulated or workspace.options["HARDWARE"]:
        return ""
    return "" if sign_of_hardware() else f"{platform}: no toolkit and no device here"


def _may_be_requested(name: str, chosen: bool) -> bool:
    """Return True if a test may have to run.

    A target that is not ours may be an alias of the workspace's own. Without targets, the SConstruct's defaults count.
    """
    targets = [target for target in map(str, COMMAND_LINE_TARGETS) if target != "help"]
    return (
        not targets or "query" in targets or _is_named(name, chosen) or any(target not in TARGETS for target in targets)
    )


def may_run(workspace: Workspace, name: str, tags: Collection[str]) -> bool:
    """Return whether a test may have to run."""
    return _may_be_requested(name, _chosen(workspace, name, tags))


def _is_named(name: str, chosen: bool) -> bool:
    """Return whether a test has to run."""
    targets = list(map(str, COMMAND_LINE_TARGETS))
    return name in targets or ("test" in targets and chosen)


def _finish(target: Nodes, source: Nodes, env: Environment) -> int:
    """Report a test that ran, or was up to date."""
    workspace, test = workspace_of(env), env["PYPTO_TEST"]
    outcomes, name = outcomes_of(workspace), test.name
    if test.elsewhere:
        return 0
    if test.skipped or test.broken:
        error = f"{name}: {test.broken}" if test.broken else ""
        reason = test.skipped or error.removeprefix(f"{name}: ").partition(";")[0]
        text = f"{error}\n" if error else ""
        outcomes.add(Outcome(name, "ERROR" if error else "SKIPPED", reason=reason, text=text, failed=bool(error)))
        return EXIT_STATUS["usage_error"] if error and not _all_are_run(env) else 0
    if test.judge:
        outcome = test.judge()
        outcomes.add(outcome)
        return int(outcome.failed and not _all_are_run(env))
    status = finish(env, test.replays)
    refused = env["PYPTO_REPLAYS"].refused.get(name, [])
    outcomes_of_test = [outcome_of_replay(workspace, replay, name) for replay in test.replays]
    outcomes.add(_one_of(name, outcomes_of_test, refused))
    status = status or next((status for status, _ in refused if status), 0)
    return 0 if _all_are_run(env) else status


def _one_of(name: str, outcomes: list[Outcome], refused: list[tuple[int, str]]) -> Outcome:
    """Return the outcome of a test of several parts: that of the first failure, else of the first part."""
    wrong = [Outcome(name, "ERROR", reason=reason, failed=True) for status, reason in refused if status]
    skipped = [Outcome(name, "SKIPPED", reason=reason) for _, reason in refused]
    outcome = next((one for one in (*outcomes, *wrong) if one.failed), (*outcomes, *skipped)[0])
    outcome.seconds = sum(one.seconds for one in outcomes)
    return outcome


def _check_tags(target: Nodes, source: Nodes, env: Environment) -> int:
    """Raise for TAGS= that select no test."""
    replays: Replays = env["PYPTO_REPLAYS"]
    text = workspace_of(env).options["TAGS"]
    if set().union(*replays.tags.values()) & set(text.split(",")):
        return 0
    terminal.complain(f"scons: *** TAGS={text}: no test has one of these; {_all_tags(replays)}")
    return EXIT_STATUS["usage_error"]


def _all_tags(replays: Replays) -> str:
    """Return the part of a message that lists the tags of all tests."""
    tags = sorted(set().union(*replays.tags.values()))
    return f"there are: {', '.join(tags)}" if tags else "no test has tags"


def _check_names(target: Nodes, source: Nodes, env: Environment) -> int:
    """Raise for NAMES= that select no test."""
    workspace, replays = workspace_of(env), env["PYPTO_REPLAYS"]
    if any(_selected(workspace, name, tags) for name, tags in replays.tags.items()):
        return 0
    patterns = workspace.options["NAMES"]
    terminal.complain(f"scons: *** NAMES={patterns}: no test has such a name; scons test --list lists them")
    return EXIT_STATUS["usage_error"]


def _print_names(target: Nodes, source: Nodes, env: Environment) -> None:
    """Print the tests that would run, with their tags."""
    workspace, replays = workspace_of(env), env["PYPTO_REPLAYS"]
    rows = {name: sorted(tags) for name, tags in replays.tags.items() if _selected(workspace, name, tags)}
    width = max(map(len, rows), default=0)
    terminal.say(*(f"{name:<{width}}  {','.join(rows[name])}".rstrip() for name in sorted(rows)))


def _check_failed(target: Nodes, source: Nodes, env: Environment) -> None:
    """Raise for FAILED=1 if no test failed."""
    if not failed_tests(workspace_of(env).build_dir):
        terminal.say("[test] no test failed when it last ran; scons test runs all of them")
