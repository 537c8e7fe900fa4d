"""``scons test SCHEDULER=``: a farm runs the replay tests that are not up to date; each prints a line at its end."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
from SCons.Script import ARGUMENTS, GetOption

from pypto_build import terminal
from pypto_build.facts.jobs import FarmLine, FarmReady, FarmResult
from pypto_build.facts.outcomes import Outcome
from pypto_build.rules.disk import LOGS
from pypto_build.rules.machinery.deferred import Deferred, declare_deferred
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.workspace import Workspace, escape, workspace_of
from pypto_build.rules.many import OF_ALL
from pypto_build.rules.many.batch import finding, log_of
from pypto_build.rules.many.choice import Job
from pypto_build.rules.many.farm import Farm, Limits, row_of_result
from pypto_build.rules.outcomes import FILES, outcomes_of
from pypto_build.rules.replay import Replay, Test

_NAME = "tests on the farm"
#: Attributes of a test that name files of this machine besides its artifact.
_OF_THIS_MACHINE = ("data", "golden", "signature", "comparators", "compare")
#: Options of the command, not of its tests.
_OF_THE_COMMAND = OF_ALL | {*FILES, "ANNOTATE", "FAILED"}


@dataclass
class _Handed:
    """The tests that run on the farm, by name."""

    farm: Farm
    jobs: dict[str, Job] = field(default_factory=dict)
    nodes: Nodes = ()


def can_hand_over(values: Mapping[str, Any], replays: Sequence[Replay]) -> bool:
    """Return True if a test needs nothing of this machine except its artifact, and is not up to date here."""
    here = any(values.get(name) is not None for name in _OF_THIS_MACHINE)
    return not here and len(replays) == 1 and not _has_result(replays[0])


def _has_result(replay: Replay) -> bool:
    targets = replay.targets
    return not targets.is_stale and not targets.binaries and targets.signing.proven and replay.step.proven


def hand_over(env: Environment, name: str, values: Mapping[str, Any], replay: Replay) -> Nodes:
    """Return the node of the farm: it waits until all tests are declared, and runs those that were handed over."""
    workspace = workspace_of(env)
    handed: _Handed | None = workspace.extras.get(_NAME)
    if handed is None:
        handed = workspace.extras[_NAME] = _Handed(_farm(workspace))
        tests = env["PYPTO_REPLAYS"].tests.values()
        deferred = Deferred(
            env, lambda: [node for test in tests for node in test.deferred.inputs], partial(_declare_all, tests)
        )
        target = escape(str(workspace.build_dir / ".farm"))
        handed.nodes = declare_deferred(env, target, deferred, partial(_run, workspace, handed))
    tolerances = {key: str(values[key.lower()]) for key in ("RTOL", "ATOL") if values[key.lower()] is not None}
    handed.jobs[name] = Job(replay.targets.artifact.root, replay.targets.platform.name, tolerances, title=name)
    return handed.nodes


def _declare_all(tests: Iterable[Test]) -> Nodes:
    """Declare the tests that SCons has not reached; none of their nodes has to be built first."""
    for test in tests:
        test.deferred.nodes()
    return ()


def _farm(workspace: Workspace) -> Farm:
    options = workspace.options
    arguments = {name: value for name, value in ARGUMENTS.items() if name not in _OF_THE_COMMAND}
    limits = Limits(max(1, GetOption("num_jobs")), 0)
    return Farm(options["SCHEDULER"], ["replay"], arguments, limits, options["MEM"])


def _run(workspace: Workspace, handed: _Handed) -> None:
    """Have the farm do all of them. Ctrl-C reaches it too, since it is in the same session."""
    outcomes = outcomes_of(workspace)
    process, reader = handed.farm.start(list(handed.jobs.values()), apart=False)
    left = dict(handed.jobs)
    with open(reader, "rb") as results:
        for line in results:
            result = msgspec.json.decode(line, type=FarmLine)
            if isinstance(result, FarmReady):
                continue
            outcomes.add(_outcome(workspace, left.pop(result.label), result))
    os.waitpid(process, 0)
    for name, job in left.items():
        outcomes.add(Outcome(name, "ERROR", reason="the farm did not do it", artifact=str(job.root), failed=True))


def _outcome(workspace: Workspace, job: Job, result: FarmResult) -> Outcome:
    log = log_of(workspace.build_dir / LOGS, job, ["test"])
    outcome = row_of_result(job, result, log, finding(result.log)).outcome
    outcome.text = outcome.text or terminal.plain(result.log)
    outcome.verdict = os.path.relpath(log.with_suffix(".verdict.json")) if result.verdict else ""
    return outcome
