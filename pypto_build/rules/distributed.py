"""Distributed artifacts: each chip program an artifact of its own, and one replay of the driver over all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from SCons.Action import Action

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.distributed import Distributed, load_distributed
from pypto_build.facts.run_options import SIMPLER
from pypto_build.proof import Place
from pypto_build.rules.artifact import (
    Artifacts,
    ArtifactTargets,
    chip_words,
    declare_config,
    declare_loaded,
    tell_all_built,
)
from pypto_build.rules.compile_commands import update_compile_commands
from pypto_build.rules.completion import open_artifact
from pypto_build.rules.embedded_runtime import embedded_runtime
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.steps import Step
from pypto_build.rules.machinery.workspace import Workspace, escape, workspace_of
from pypto_build.rules.options import OPTIONS
from pypto_build.rules.outcomes import outcomes_of, wants_files
from pypto_build.rules.replay import declare_replay, finish_replays, show_results
from pypto_build.rules.splice import Spliced, Splices
from pypto_build.rules.variants import CHECKED, USUAL
from pypto_build.rules.verb_targets import declare_verb, verb_flags
from pypto_build.rules.verbs import VERBS, Needs, Verb
from pypto_build.toolchain.python import own_tool

#: What looks at a distributed artifact: the module in the place of a verb's own.
TOOLS = {
    "hazards": "pypto_build.diagnose.hazards.ranks",
    "deps": "pypto_build.diagnose.ranks.deps",
    "dump": "pypto_build.diagnose.ranks.dump",
    "report": "pypto_build.diagnose.ranks.report",
    "lint": "pypto_build.diagnose.ranks.lint",
    "diverge": "pypto_build.diagnose.ranks.diverge",
    "flaky": "pypto_build.diagnose.ranks.flaky",
    "pack": "pypto_build.diagnose.ranks.pack",
    "triage": "pypto_build.diagnose.ranks.triage",
}
#: Verbs that look at one chip program after the other.
_OF_EACH_CHIP = ("pto_check", "passes", "torch", "splice")
_AT_A_REPLAY = (Needs.REPLAY, Needs.TRIAGE)
_USUAL = ("build", "replay", "graph")


def declare_distributed(env: Environment, root: Path, wanted: list[str]) -> None:
    """The nodes of the distributed artifact in ``root``, and those of the ``wanted`` targets that it has.

    Raises:
        ArtifactError: it cannot be read, or there is a target that looks at one chip program.
    """
    distributed = load_distributed(root)
    other = next((target for target in wanted if target not in (*_USUAL, *TOOLS, *_OF_EACH_CHIP)), None)
    if other is not None:
        chips = ", ".join(f"{root.name}/next_levels/{name}" for name in distributed.chips)
        raise ArtifactError(
            root, f"is distributed, and 'scons {other}' looks at one chip program", f"JIT= one of {chips}"
        )
    looking = [VERBS[target] for target in wanted if target in TOOLS and VERBS[target].needs in _AT_A_REPLAY]
    verdict: Nodes = ()
    if not wanted or looking or set(wanted) & set(_USUAL):
        verdict = _declare_usual(env, distributed_targets(env, distributed), wanted, looking)
    for target in wanted:
        if target in TOOLS:
            _declare_tool(env, VERBS[target], distributed, verdict)
        elif target in _OF_EACH_CHIP:
            _declare_each(env, target, distributed)


def _declare_each(env: Environment, target: str, distributed: Distributed) -> None:
    """The target of a verb that knows one chip, on each chip program."""
    if target == "splice":
        from pypto_build.rules.pto_targets import declare_splice

        declare_splice(env, list(distributed_targets(env, distributed).parts))
    elif VERBS[target].needs is Needs.ARTIFACT:
        for chip in distributed.chips.values():
            declare_verb(env, VERBS[target], chip)
    else:
        for part in distributed_targets(env, distributed).parts:
            declare_verb(env, VERBS[target], part.artifact.root, part)


def _declare_usual(env: Environment, targets: ArtifactTargets, wanted: list[str], looking: list[Verb]) -> Nodes:
    """What every artifact has; the node of its replay, which leaves what the verbs that are ``looking`` need."""
    workspace = workspace_of(env)
    for part in targets.parts:
        update_compile_commands(workspace, part)
    env.Alias("build", targets.all)
    if "build" in wanted:
        env.AlwaysBuild(env.Alias("build", [], Action(tell_all_built, None), PYPTO_BUILT=[targets]))
    if "graph" in wanted:
        from pypto_build.rules.graph import declare_graph

        declare_graph(env, list(targets.parts))
    if wanted and not looking and "replay" not in wanted:
        return ()
    if "replay" in wanted and wants_files(workspace) and not looking:
        outcomes_of(workspace)
    wished = {name: value for verb in looking for name, value in verb.replay_with.items()}
    chosen = {name: value for name, value in wished.items() if workspace.options[name] == OPTIONS[name].default}
    verdict = declare_replay(env, targets, chosen=chosen, tolerant=bool(looking))
    env.AlwaysBuild(env.Alias("replay", [*verdict, *targets.all], Action(finish_replays, None)))
    return verdict


def _declare_tool(env: Environment, verb: Verb, distributed: Distributed, verdict: Nodes) -> None:
    """The target that looks at all chip programs together; at a replay, whose node is ``verdict``, if it needs one."""
    if verb.needs is Needs.ARTIFACT:
        declare_verb(env, msgspec.structs.replace(verb, module=TOOLS[verb.name]), distributed.root)
        return
    if verb.needs is Needs.TRIAGE:
        from pypto_build.rules.triage import declare_triage

        of_check = distributed_targets(env, distributed, variant=workspace_of(env).own_variant(CHECKED))
        own = msgspec.structs.replace(verb, module=TOOLS[verb.name])
        declare_triage(env, own, distributed_targets(env, distributed), of_check, verdict)
        return
    checked = verb.needs is Needs.CHECKED
    variant = workspace_of(env).own_variant(CHECKED if checked else USUAL)
    targets = distributed_targets(env, distributed, variant=variant)
    assert targets.embedded is not None
    words = [*own_tool(TOOLS[verb.name]), str(distributed.root), "--platform", targets.platform.name]
    words += ["--build-dir", str(targets.output), "--embedded", targets.embedded.get_abspath()]
    words += ["--binaries", str(targets.binaries_dir)] if targets.variant else []
    words += chip_words(targets)
    looked = verdict if verb.needs is Needs.REPLAY else ()
    actions = [Action(tell_all_built, None), *([Action(show_results, None)] if looked else [])]
    actions.append(Action([[escape(word) for word in [*words, *verb_flags(env, verb)]]], None))
    env.AlwaysBuild(env.Alias(verb.name, [*targets.all, *looked], actions, PYPTO_BUILT=[targets]))


def declare_whole(
    env: Environment, root: Path, platform_name: str | None, variant: str | None = None
) -> ArtifactTargets:
    """The nodes of the distributed artifact in ``root``; raises as ``distributed_targets``."""
    return distributed_targets(env, load_distributed(root), platform_name, variant)


def distributed_targets(
    env: Environment, distributed: Distributed, platform_name: str | None = None, variant: str | None = None
) -> ArtifactTargets:
    """The nodes of all chip programs and of the interface by which a replay binds host tensors.

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
        place = workspace.place(output, artifact=distributed.root)
        parts = tuple(
            declare_loaded(env, open_artifact(workspace, chip, platform_name), platform_name, variant)
            for chip in distributed.chips.values()
        )
        signing = _sign_step(workspace, place, distributed)
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
        raise ArtifactError("CHECK=1", "is for one chip program", "name one of next_levels/ with JIT=")
    if not distributed.chips:
        raise ArtifactError(distributed.root, "has no chip program under next_levels/", "compile again")


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
