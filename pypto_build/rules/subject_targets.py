"""Nodes of a run's subject: a program for one chip, or one for several."""

from __future__ import annotations

from pypto_build.rules.artifact import ArtifactTargets, Early, declare_loaded
from pypto_build.rules.machinery.scons_types import Environment
from pypto_build.rules.subject import Subject


def targets_of(
    env: Environment,
    subject: Subject,
    platform_name: str | None = None,
    variant: str | None = None,
    needed: bool = True,
    early: Early | None = None,
) -> ArtifactTargets:
    """The nodes of a subject's program; ``variant``, ``needed`` and ``early`` are those of `declare_loaded`."""
    if subject.distributed is not None:
        from pypto_build.rules.distributed import distributed_targets

        return distributed_targets(env, subject.distributed, platform_name, variant)
    return declare_loaded(env, subject.artifact, platform_name, variant, needed, early)
