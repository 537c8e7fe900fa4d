"""``scons triage TEST=name``: finds why a declared test fails, with the test's data, goldens and tolerances."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from SCons.Action import Action

from pypto_build import terminal
from pypto_build.facts.verbs import VERBS
from pypto_build.replay.verdict import EXIT_STATUS
from pypto_build.rules.artifact import declare_loaded
from pypto_build.rules.machinery.inputs import makers
from pypto_build.rules.machinery.scons_types import Environment, Node, Nodes
from pypto_build.rules.machinery.workspace import workspace_of
from pypto_build.rules.replay import Replay, replays_of
from pypto_build.rules.stage import declare_stage
from pypto_build.rules.triage import declare_triage
from pypto_build.rules.variants import CHECKED

VERB = "triage"
_FOUND = "triaged test"  # among the workspace's extras


def expect_test(env: Environment) -> None:
    """Declare the target for a test that the SConstruct may declare later; it fails if the SConstruct does not."""
    env.AlwaysBuild(env.Alias(VERB, [], Action(_say_unknown, None)))


def triage_test(env: Environment, name: str, inputs: Sequence[Node], declare: Callable[[], Nodes]) -> None:
    """Point the target at the test ``name``, whose replays ``declare`` declares once its ``inputs`` are built.

    Raises:
        ArtifactError: whatever is wrong with the test.
    """
    workspace_of(env).extras[_FOUND] = name
    triage = partial(_triage, env, declare)
    if any(map(makers, inputs)):
        declare_stage(env, lambda: inputs, triage)
    else:
        triage()


def _triage(env: Environment, declare: Callable[[], Nodes]) -> None:
    workspace, nodes = workspace_of(env), declare()
    for replay in replays_of(env, nodes):
        targets = replay.targets
        if replay.configuration.comparators:
            terminal.say(f"[triage] compares within tolerances, without {', '.join(replay.configuration.comparators)}")
        variant = workspace.own_variant(CHECKED)
        if targets.parts:
            from pypto_build.artifact.distributed import load_distributed
            from pypto_build.rules.distributed import distributed_targets

            distributed = load_distributed(targets.artifact.root)
            checked = distributed_targets(env, distributed, targets.platform.name, variant)
        else:
            checked = declare_loaded(env, targets.artifact, targets.platform.name, variant)
        declare_triage(env, VERBS[VERB], targets, checked, nodes, replay.data_dir, _test_options(replay))


def _test_options(replay: Replay) -> Mapping[str, Any]:
    """Return the options that the test sets, in the form that the instruments accept."""
    pairs = dict(pair.split("=", 1) for pair in replay.configuration.pairs)
    return {name: pairs[name] for name in ("WORLD", "MEMORY", "RTOL", "ATOL") if name in pairs}


def _say_unknown(target: Nodes, source: Nodes, env: Environment) -> int:
    workspace, tests = workspace_of(env), sorted(env["PYPTO_REPLAYS"].tags)
    if _FOUND in workspace.extras:
        return 0
    name = workspace.options["TEST"]
    if name in tests:
        terminal.complain(f"scons: *** TEST={name}: is a scene test; name one of its cases: SCENE=FILE::CLASS::CASE")
        return EXIT_STATUS["usage_error"]
    near = difflib.get_close_matches(name, tests, n=1, cutoff=0.5)
    there_are = ", ".join(tests[:10]) or "none"
    meant = f"did you mean {near[0]}?" if near else f"declared here: {there_are}"
    terminal.complain(f"scons: *** TEST={name}: no such test; {meant}")
    return EXIT_STATUS["usage_error"]
