"""Distributed artifacts: each chip program is an artifact of its own, and one replay of the driver runs all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.distributed import Distributed, load_distributed
from pypto_build.facts.run_options import SIMPLER
from pypto_build.facts.verbs import Needs, Verb
from pypto_build.proof import OutputDir
from pypto_build.rules.artifact import (
    Artifacts,
    ArtifactTargets,
    declare_config,
    declare_loaded,
)
from pypto_build.rules.completion import open_artifact
from pypto_build.rules.embedded_runtime import embedded_runtime
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.steps import Step
from pypto_build.rules.machinery.workspace import Workspace, workspace_of
from pypto_build.rules.splice import Spliced, Splices
from pypto_build.rules.verb_targets import declare_verb

#: Verbs that look at all ranks together.
_OF_RANKS = ("hazards", "speed", "deps", "dump", "report", "lint", "diverge", "flaky", "pack", "triage")
#: Verbs that look at one chip program after the other.
_OF_EACH_CHIP = ("pto_check", "passes", "torch", "splice")
_USUAL = ("build", "replay", "graph")


def refuse_verbs(distributed: Distributed, targets: Sequence[str]) -> None:
    """Raise a usage error if one of ``targets`` works on the program of one chip."""
    other = next((target for target in targets if target not in (*_USUAL, *_OF_RANKS, *_OF_EACH_CHIP)), None)
    if other is not None:
        root = distributed.root
        chips = ", ".join(_as_named(chip, root) for chip in distributed.chips.values())
        raise ArtifactError(
            root,
            f"is a program for several chips, but 'scons {other}' works on the program of one chip",
            f"name one with JIT=, of {chips}",
        )


def _as_named(chip: Path, root: Path) -> str:
    """Return the name of a chip program for JIT=; a chip program of a scene test lies beside the artifact."""
    return f"{root.name}/{chip.relative_to(root)}" if chip.is_relative_to(root) else os.path.relpath(chip)


def declare_without_nodes(env: Environment, verb: Verb, distributed: Distributed) -> None:
    """Declare the target of a tool that needs no build."""
    if verb.name in _OF_RANKS:
        declare_verb(env, verb, distributed.root)
        return
    for chip in distributed.chips.values():
        declare_verb(env, verb, chip)


def declare_tool(
    env: Environment, verb: Verb, usual: ArtifactTargets, targets: ArtifactTargets, verdict: Nodes
) -> None:
    """Declare the target of a tool on a distributed artifact: on all chip programs at once, or on each in turn.

    A tool that reads a replay gets that of ``usual``, whose node is ``verdict``. ``targets`` are built as the tool
    needs them.
    """
    if verb.name in _OF_EACH_CHIP:
        for part in targets.parts:
            declare_verb(env, verb, part.artifact.root, part)
    elif verb.needs is Needs.TRIAGE:
        from pypto_build.rules.triage import declare_triage

        declare_triage(env, verb, usual, targets, verdict)
    else:
        looked = verdict if verb.needs is Needs.REPLAY else ()
        declare_verb(env, verb, targets.artifact.root, targets, looked)


def declare_whole(
    env: Environment, root: Path, platform_name: str | None, variant: str | None = None
) -> ArtifactTargets:
    """Return the nodes of the distributed artifact in ``root``; raises as ``distributed_targets``."""
    return distributed_targets(env, load_distributed(root), platform_name, variant)


def distributed_targets(
    env: Environment, distributed: Distributed, platform_name: str | None = None, variant: str | None = None
) -> ArtifactTargets:
    """Return the nodes of all chip programs and of the interface by which a replay binds host tensors.

    Raises:
        ArtifactError: it has no chip program, or is asked for what is for one chip.
    """
    workspace = workspace_of(env)
    platform = workspace.platform(platform_name)
    _require_chips(workspace, distributed)
    variant = workspace.variant(platform) if variant is None else variant
    output = workspace.output(distributed.name, distributed.root, platform)
    artifacts: Artifacts = env["PYPTO_ARTIFACTS"]
    declared = artifacts.by_output.setdefault(output, {})
    if variant not in declared:
        output_dir = workspace.output_dir(output, artifact=distributed.root)
        parts = tuple(
            declare_loaded(env, open_artifact(workspace, chip, platform_name), platform_name, variant)
            for chip in distributed.chips.values()
        )
        signing = _sign_step(workspace, output_dir, distributed)
        declared[variant] = ArtifactTargets(
            artifact=distributed.as_artifact(),
            platform=platform,
            output=output,
            variant=variant,
            plans=(),
            splices=Splices(),
            steps=(),
            spliced=Spliced(),
            binaries=[node for part in parts for node in (*part.spliced.nodes, *part.binaries, *part.config)],
            signing=signing,
            config=declare_config(env, signing),
            is_stale=any(part.is_stale for part in parts),
            embedded=embedded_runtime(env) if workspace.runtime(platform) != SIMPLER else None,
            parts=parts,
            files=distributed.files,
        )
    return declared[variant]


def _require_chips(workspace: Workspace, distributed: Distributed) -> None:
    if workspace.options["CHECK"]:
        raise ArtifactError(
            "CHECK=1",
            "works on one chip program, but the artifact is for several chips",
            "name a directory under next_levels/ with JIT=",
        )
    if not distributed.chips:
        raise ArtifactError(distributed.root, "has no chip program in next_levels/", "compile again")


def _sign_step(workspace: Workspace, output_dir: OutputDir, distributed: Distributed) -> Step:
    """Return the step that derives the interface from the metadata."""
    interface = "interface.json"
    argv: list[Any] = [str(distributed.root), "--interface", f"{output_dir.path(interface)}.tmp"]
    action = python_tool(
        workspace,
        "pypto_build.artifact.distributed",
        argv,
        name=interface,
        inputs=distributed.files,
        outputs=(interface,),
        toolkits=False,
        settings={"the name of the artifact": distributed.name},
    )
    return Step(output_dir, action, "[meta] sign", workspace.short(distributed.driver))
