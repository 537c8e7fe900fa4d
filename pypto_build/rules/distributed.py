"""Distributed artifacts: each chip program an artifact of its own, and one replay of the driver over all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from SCons.Action import Action

from pypto_build.artifact import Artifact, ArtifactError, Orchestration
from pypto_build.artifact.distributed import Distributed, load_distributed
from pypto_build.facts.platforms import Platform
from pypto_build.facts.run_options import EMBEDDED
from pypto_build.proof import Place
from pypto_build.rules.artifact import Artifacts, ArtifactTargets, declare_config, declare_loaded, tell_all_built
from pypto_build.rules.compile_commands import update_compile_commands
from pypto_build.rules.completion import open_artifact
from pypto_build.rules.embedded_runtime import embedded_runtime
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.scons_types import Environment
from pypto_build.rules.machinery.steps import Step
from pypto_build.rules.machinery.workspace import Workspace, escape, workspace_of
from pypto_build.rules.outcomes import outcomes_of, wants_files
from pypto_build.rules.replay import declare_replay, finish_replays
from pypto_build.rules.splice import Spliced, Splices
from pypto_build.rules.variants import CHECKED, WEAK
from pypto_build.rules.verb_targets import verb_flags
from pypto_build.rules.verbs import VERBS
from pypto_build.toolchain.python import own_tool

_TARGETS = ("build", "replay", "graph", "hazards")


def declare_distributed(env: Environment, root: Path, wanted: list[str]) -> None:
    """The nodes of the distributed artifact in ``root``, and those of the ``wanted`` targets that it has."""
    workspace = workspace_of(env)
    other = next((target for target in wanted if target not in _TARGETS), None)
    if other is not None:
        chips = ", ".join(f"{root.name}/next_levels/{name}" for name in load_distributed(root).chips)
        raise ArtifactError(
            root, f"is distributed, and 'scons {other}' looks at one chip program", f"JIT= one of {chips}"
        )
    if "hazards" in wanted:
        _declare_hazards(env, root)
        wanted = [target for target in wanted if target != "hazards"]
        if not wanted:
            return
    weak = WEAK.directory if workspace.options["MEMORY"] else ""
    targets = distributed_targets(env, load_distributed(root), variant=weak)
    for part in targets.parts:
        update_compile_commands(workspace, part)
    env.Alias("build", targets.all)
    if "build" in wanted:
        env.AlwaysBuild(env.Alias("build", [], Action(tell_all_built, None), PYPTO_BUILT=[targets]))
    if "graph" in wanted:
        from pypto_build.rules.graph import declare_graph

        declare_graph(env, list(targets.parts))
    if "replay" in wanted and wants_files(workspace):
        outcomes_of(workspace)
    if "replay" in wanted or not wanted:
        verdict = declare_replay(env, targets)
        env.AlwaysBuild(env.Alias("replay", [*verdict, *targets.all], Action(finish_replays, None)))


def _declare_hazards(env: Environment, root: Path) -> None:
    """The target that replays the checked build of all chip programs, and looks at what ranks touch of windows."""
    verb = VERBS["hazards"]
    checked = WEAK if workspace_of(env).options["MEMORY"] else CHECKED
    targets = distributed_targets(env, load_distributed(root), variant=checked.directory)
    assert targets.embedded is not None
    words = [*own_tool("pypto_build.diagnose.hazards.ranks"), str(root), "--platform", targets.platform.name]
    words += ["--build-dir", str(targets.output), "--embedded", targets.embedded.get_abspath()]
    words += [word for part in targets.parts for word in ("--chip", f"{part.artifact.root.name}={part.output}")]
    actions = [
        Action(tell_all_built, None),
        Action([[escape(word) for word in [*words, *verb_flags(env, verb)]]], None),
    ]
    env.AlwaysBuild(env.Alias(verb.name, targets.all, actions, PYPTO_BUILT=[targets]))


def distributed_targets(
    env: Environment, distributed: Distributed, platform_name: str | None = None, variant: str = ""
) -> ArtifactTargets:
    """The nodes of all chip programs and of the interface by which a replay binds host tensors.

    Raises:
        ArtifactError: it has no chip program, or is asked to run on another runtime than ours.
    """
    workspace = workspace_of(env)
    platform = workspace.platform(platform_name)
    _require_embedded(workspace, platform, distributed)
    output = workspace.output(distributed.name, distributed.root, platform)
    artifacts: Artifacts = env["PYPTO_ARTIFACTS"]
    declared = artifacts.by_output.setdefault(output, {})
    if variant not in declared:
        place = workspace.place(output, artifact=distributed.root)
        parts = tuple(
            declare_loaded(env, open_artifact(workspace, chip, platform_name), platform_name, variant)
            for chip in distributed.chips.values()
        )
        signing = _sign_step(workspace, place, distributed)
        declared[variant] = ArtifactTargets(
            artifact=_record(distributed),
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
            embedded=embedded_runtime(env),
            parts=parts,
            files=distributed.files,
        )
    return declared[variant]


def _require_embedded(workspace: Workspace, platform: Platform, distributed: Distributed) -> None:
    runtime = workspace.runtime(platform)
    if runtime != EMBEDDED or not platform.simulated:
        asked = f"RUNTIME={runtime}" if platform.simulated else f"PLATFORM={platform.name}"
        raise ArtifactError(
            asked, "does not run distributed artifacts yet", "use RUNTIME=embedded and PLATFORM=a2a3sim"
        )
    if workspace.options["CHECK"]:
        raise ArtifactError("CHECK=1", "is for one chip program", "name one of next_levels/ with JIT=")
    if not distributed.chips:
        raise ArtifactError(distributed.root, "has no chip program under next_levels/", "compile again")


def _record(distributed: Distributed) -> Artifact:
    """What a replay asks of any artifact: where it is and what it is called."""
    entry = Orchestration(distributed.driver, "host_orch", "host_orch")
    return Artifact(distributed.root, distributed.name, (), entry, {})


def _sign_step(workspace: Workspace, place: Place, distributed: Distributed) -> Step:
    """Derives the interface from the metadata."""
    interface = "interface.json"
    argv: list[Any] = [str(distributed.root), "--interface", f"{place.path(interface)}.tmp"]
    action = python_tool(
        workspace,
        "pypto_build.artifact.distributed",
        argv,
        name=interface,
        inputs=distributed.files,
        outputs=(interface,),
        settings={"the name of the artifact": distributed.name},
    )
    return Step(place, action, "[meta] sign", workspace.short(distributed.driver))
