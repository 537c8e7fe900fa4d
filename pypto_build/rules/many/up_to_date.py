"""Finds jobs that are up to date without running them: a few processes check many artifacts, one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from SCons.Script import COMMAND_LINE_TARGETS

from pypto_build import terminal
from pypto_build.artifact import ArtifactError, lacks_kernels
from pypto_build.artifact.layout import find_children
from pypto_build.rules.artifact import Artifacts, ArtifactTargets, declare_loaded
from pypto_build.rules.completion import open_artifacts
from pypto_build.rules.machinery.attributes import RuleError
from pypto_build.rules.machinery.locks import release_output, try_lock
from pypto_build.rules.machinery.scons_types import Environment
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.rules.many.choice import Job
from pypto_build.rules.many.report import JobReport
from pypto_build.rules.options import OptionError, Options
from pypto_build.rules.replay import Replays, declare_replay, finish_replays, outcome_of_replay, replays_of
from pypto_build.toolchain import ToolchainError

#: Targets of which it can be said that nothing has to be done.
UNCHANGED = ("build", "replay")

#: Opens the workspace of a job.
Opened = Callable[[Job], Workspace]


def can_check(targets: Iterable[str], options: Options) -> bool:
    """Return True if a check may be sufficient for these targets."""
    return set(targets) <= set(UNCHANGED) and not options["FORCE"] and not options["SANDBOX"]


def check_jobs(env: Environment, jobs: Iterable[Job], opened: Opened) -> Iterator[tuple[Job, JobReport | None]]:
    """Yield each job with its outcome if it needs no run, else with None."""
    terminal.redirect(lambda text, error: None)  # a job that has to run prints its own errors
    workspaces: dict[tuple[str, ...], Workspace] = {}
    for job in jobs:
        key = (job.platform, *(f"{name}={value}" for name, value in job.options.items()))
        try:
            if key not in workspaces:
                workspaces[key] = opened(job)
            yield job, _check_job(env, job, workspaces[key])
        except (ArtifactError, OptionError, RuleError, ToolchainError, OSError):
            yield job, None  # its own process says what is wrong


def _check_job(env: Environment, job: Job, workspace: Workspace) -> JobReport | None:
    roots = [job.root, *find_children(job.root)]
    outputs = [workspace.build_dir / workspace.options["PLATFORM"] / job.name]
    if any(map(lacks_kernels, roots)) or not all(path.is_dir() and try_lock(path) for path in outputs):
        return None
    try:
        return _known(env, job, workspace)
    finally:
        for output in (*outputs, *workspace.outputs):
            if output_dir := workspace.output_dirs.pop(output, None):
                output_dir.save()
            workspace.outputs.pop(output, None)
            release_output(output)


def _known(env: Environment, job: Job, workspace: Workspace) -> JobReport | None:
    replays = Replays()
    env.Replace(PYPTO=workspace, PYPTO_ARTIFACTS=Artifacts(), PYPTO_REPLAYS=replays)
    declared = []
    for artifact in open_artifacts(workspace, job.root):
        targets = declare_loaded(env, artifact)
        if not _is_built(targets):
            return None
        declared.append(targets)
    if "replay" not in map(str, COMMAND_LINE_TARGETS):
        return JobReport(0)
    nodes = [node for targets in declared for node in declare_replay(env, targets, alone=False)]
    replays_of_job = replays_of(env, nodes)
    if not all(replay.step.proven for replay in replays_of_job):
        return None
    status = finish_replays(nodes, nodes, env)
    return JobReport(status, outcomes=[outcome_of_replay(workspace, replay, job.label) for replay in replays_of_job])


def _is_built(targets: ArtifactTargets) -> bool:
    """Return True if all inputs of a run are built."""
    embedded = targets.embedded
    there = embedded is None or not embedded.has_builder()
    return there and bool(targets.plans) and not targets.binaries and targets.signing.proven


def exists(job: Job, build_dir: Path) -> bool:
    """Return True if any output of a job's artifact exists."""
    platforms = (job.platform, f"{job.platform}sim")
    return any(os.path.isdir(build_dir / platform / job.name) for platform in platforms)
