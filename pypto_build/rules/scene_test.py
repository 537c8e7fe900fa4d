"""``SceneTest``: the cases of a scene test, each replayed on its own data and compared with its golden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pypto_build.rules.artifact import ArtifactTargets, OnStale, declare_loaded
from pypto_build.rules.compile_commands import update_compile_commands
from pypto_build.rules.machinery.attributes import PLATFORM, Attribute, Kind, Rule, path_attribute
from pypto_build.rules.machinery.inputs import path_of
from pypto_build.rules.machinery.scons_types import Environment, Node, Nodes
from pypto_build.rules.machinery.workspace import workspace_of
from pypto_build.rules.replay import declare_replay
from pypto_build.rules.scene_outcomes import say_refused
from pypto_build.rules.scenes import open_scenes
from pypto_build.rules.subject import Subject
from pypto_build.rules.tests import declare_test

# Nodes of a run's subject: a program for one chip, or one for several.


def targets_of(
    env: Environment,
    subject: Subject,
    platform_name: str | None = None,
    variant: str | None = None,
    needed: bool = True,
    on_stale: OnStale | None = None,
) -> ArtifactTargets:
    """Return the nodes of a subject's program. The parameters are those of `declare_loaded`."""
    if subject.distributed is not None:
        from pypto_build.rules.distributed import distributed_targets

        return distributed_targets(env, subject.distributed, platform_name, variant)
    return declare_loaded(env, subject.artifact, platform_name, variant, needed, on_stale)


SCENE_TEST = Rule(
    "SceneTest",
    "Runs the cases of a scene test without simpler; part of `scons test`, and a target by its name.",
    (
        Attribute("name", (str,), "the name of the target", required=True),
        path_attribute("file", Kind.FILE, "the file with the @scene_test classes", required=True),
        Attribute("cases", (list, tuple), "NAME, CLASS::NAME, CLASS:: or ::NAME (default: all but manual ones)"),
        PLATFORM,
        Attribute("tags", (list, tuple), "names that TAGS= selects by"),
    ),
)


def declare_scene_test(env: Environment, **attributes: Any) -> Nodes:
    """Implement the rule; return the alias of the test."""
    values = SCENE_TEST.check(attributes, env)
    return declare_test(env, values, [values["file"]], _declare)


def _declare(env: Environment, values: Mapping[str, Any]) -> Nodes:
    """Return the target: the replays of all cases that run here."""
    workspace = workspace_of(env)
    platform = workspace.platform(values["platform"])
    subjects, refused = open_scenes(
        workspace, workspace.short_of_top(path_of(values["file"])), platform, values["cases"] or ()
    )
    say_refused(refused, runs=True)
    verdicts: list[Node] = []
    for subject in subjects:
        targets = targets_of(env, subject, platform.name)
        for part in targets.parts or (targets,):
            update_compile_commands(workspace, part)
        verdicts += declare_replay(
            env,
            targets,
            subject.data,
            alone=False,
            of_a_test=True,
            subject=subject,
        )

    env["PYPTO_REPLAYS"].refused[values["name"]] = [(one.status, f"{one.label}: {one.reason}") for one in refused]
    return verdicts
