"""The one artifact that ``JIT=`` selects, and its targets. Modules of targets that were not named are not loaded."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path

from SCons.Action import Action
from SCons.Script import COMMAND_LINE_TARGETS, GetOption

from pypto_build import terminal
from pypto_build.artifact import ArtifactError, artifact_name, find_artifacts, is_distributed, resolve_jit
from pypto_build.artifact.errors import require_torch
from pypto_build.artifact.snapshot import REFERENCE, is_reference
from pypto_build.facts.options import OPTIONS
from pypto_build.facts.run_options import TORCH
from pypto_build.facts.verbs import VERBS, Needs, Verb
from pypto_build.rules.artifact import ArtifactTargets, declare_loaded, tell_all_built
from pypto_build.rules.compile_commands import update_compile_commands
from pypto_build.rules.completion import open_artifacts
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.verdicts import Verdicts
from pypto_build.rules.machinery.workspace import Workspace, artifact_dirs, workspace_of
from pypto_build.rules.outcomes import outcomes_of, wants_files
from pypto_build.rules.replay import declare_replay, finish_replays, prestart_replay
from pypto_build.rules.scene_test import targets_of
from pypto_build.rules.stage import scripts_make
from pypto_build.rules.subject import Subject
from pypto_build.rules.targets import OF_AN_ARTIFACT, STATUS_VARIABLE
from pypto_build.rules.variants import CHECKED, DEBUGGED, FOR_SIMPLER, USUAL
from pypto_build.trace import span

# Tools that need nothing built.
_WITHOUT_NODES = (Needs.FILES, Needs.ARTIFACT)
# Tools that need the usual binaries besides those of their own.
_BESIDE_A_REPLAY = (Needs.TRACED, Needs.DEBUGGED)


def declare_selected(env: Environment, verdicts: Verdicts) -> None:
    """Declare the artifact of ``JIT=`` under the targets of this module, and register it with ``verdicts``."""
    workspace = workspace_of(env)
    jit = workspace.options["JIT"]
    targets = [target for target in map(str, COMMAND_LINE_TARGETS) if target in OF_AN_ARTIFACT]
    places = artifact_dirs(workspace)
    _declare_without_artifact(env)
    verbs = [VERBS[target].adapted_to(workspace.options) for target in targets if target in VERBS]
    _require_torch(workspace, verbs, "replay" in targets)
    without_nodes = [verb for verb in verbs if verb.needs in _WITHOUT_NODES]
    if workspace.options["SCENE"]:
        _declare_scenes(env, targets, verbs, verdicts)
        return
    for name in ("CASE", "SKIP_GOLDEN"):
        if jit and workspace.options[name]:
            raise ArtifactError(
                f"{name}={workspace.options[name]}", "applies only to scene tests", "name a scene test with SCENE="
            )
    if not jit:
        verdicts.concern(workspace.options, workspace.outputs)
        of_files = [verb for verb in verbs if verb.needs is Needs.FILES]
        _declare_verbs(env, of_files, None)
        targets = [target for target in targets if target not in {verb.name for verb in of_files}]
        if workspace.options["TEST"] and "triage" in targets:
            from pypto_build.rules.triage_of_test import expect_test

            expect_test(env)
            targets.remove("triage")
        if targets:
            listed = ", ".join([path.name for path in find_artifacts(*places)][:10]) or "none found"
            raise ArtifactError("JIT=", f"'scons {targets[0]}' needs an artifact", f"name one with JIT=, of {listed}")
        return
    if workspace.options["TEST"]:
        raise ArtifactError(
            "TEST=", "names a test together with its artifact, so JIT= cannot be given too", "leave out one of the two"
        )
    root = workspace.selected = resolve_jit(jit, *places)
    output = workspace.build_dir / workspace.options["PLATFORM"] / artifact_name(root)
    verdicts.concern(workspace.options, {output: root} if output != root else {})
    if is_distributed(root):
        from pypto_build.artifact.distributed import load_distributed

        distributed = load_distributed(root)
        _declare_several(env, [Subject(distributed.as_artifact(), distributed=distributed)], targets, verbs)
        verdicts.concern(workspace.options, workspace.outputs)
        return
    _declare_verbs(env, without_nodes, root)
    if "pto_diff" in targets:
        from pypto_build.rules.pto_targets import declare_pto_diff

        declare_pto_diff(env, root, *places)
    alone = {"pto_diff", *(verb.name for verb in without_nodes)}
    if not targets or set(targets) - alone:
        _declare_nodes(env, root, targets, [verb for verb in verbs if verb not in without_nodes])
    if workspace.outputs:
        verdicts.concern(workspace.options, workspace.outputs)


def _require_torch(workspace: Workspace, verbs: list[Verb], replays: bool) -> None:
    """Report that PyTorch is missing before anything is built."""
    users = [f"'scons {verb.name}'" for verb in verbs if verb.in_torch]
    runs = replays or any(verb.needs is Needs.REPLAY for verb in verbs)
    users += [f"RUNTIME={TORCH}"] if runs and workspace.options["RUNTIME"] == TORCH else []
    users += [f"DATA={REFERENCE}"] if runs and is_reference(workspace.options["DATA"], workspace.top) else []
    for user in users:
        require_torch(user)


def _declare_scenes(env: Environment, targets: list[str], verbs: list[Verb], verdicts: Verdicts) -> None:
    """Declare the cases of ``SCENE=`` under the targets of an artifact."""
    from pypto_build.rules.scene_outcomes import say_refused, tell_cases, tell_outcomes
    from pypto_build.rules.scenes import check_ranks, open_scenes

    workspace = workspace_of(env)
    if workspace.options["JIT"]:
        raise ArtifactError("SCENE=", "names a program, so JIT= cannot be given too", "leave out one of the two")
    if "pto_diff" in targets:
        raise ArtifactError(
            "SCENE=", "'scons pto_diff' compares modules, and scene tests have none", "name an artifact with JIT="
        )
    subjects, refused = open_scenes(
        workspace,
        workspace.options["SCENE"],
        workspace.platform(),
        [*filter(None, workspace.options["CASE"].split(","))],
        builds=set(targets) <= {"build", "replay"} and not GetOption("no_exec"),
    )
    check_ranks(workspace, subjects)
    if subjects and not any(subject.distributed for subject in subjects):
        _refuse_ranks(workspace, subjects[0].artifact.root)
    status = say_refused(refused, bool(subjects))
    tell_outcomes(env, refused)
    if len(subjects) > 1 and "replay" in targets:
        tell_cases(env, refused)
    _declare_several(env, subjects, targets, verbs)
    for target in targets if status or not subjects else ():
        env.AlwaysBuild(env.Alias(target, [], Action(_end_with_status, None), PYPTO_STATUS=status))
    verdicts.concern(workspace.options, workspace.outputs)


def _declare_several(env: Environment, subjects: list[Subject], targets: list[str], verbs: list[Verb]) -> None:
    """Declare the targets on several programs, including those that need no nodes."""
    without_nodes = [verb for verb in verbs if verb.needs in _WITHOUT_NODES]
    for subject in {subject.artifact.root: subject for subject in subjects}.values():
        if subject.distributed is None:
            _declare_verbs(env, without_nodes, subject.artifact.root)
            continue
        from pypto_build.rules.distributed import declare_without_nodes, refuse_verbs

        refuse_verbs(subject.distributed, targets)
        for verb in without_nodes:
            declare_without_nodes(env, verb, subject.distributed)
    if subjects and (not targets or set(targets) - {verb.name for verb in without_nodes}):
        _declare_subjects(env, subjects, targets, [verb for verb in verbs if verb not in without_nodes])


def _end_with_status(target: Nodes, source: Nodes, env: Environment) -> int:
    """Return, as an action, the status from reading the cases, for a target without other work."""
    return int(env["PYPTO_STATUS"])


def _declare_verbs(env: Environment, verbs: list[Verb], root: Path | None) -> None:
    """Declare the targets of tools that need no nodes."""
    for verb in verbs:
        from pypto_build.rules.verb_targets import declare_verb

        declare_verb(env, verb, root)


def _declare_nodes(env: Environment, root: Path, targets: list[str], verbs: list[Verb]) -> None:
    """Declare the nodes of the artifact in ``root`` or of its parts, and the targets on them."""
    _refuse_ranks(workspace_of(env), root)
    with span("read the artifact"):
        artifacts = open_artifacts(workspace_of(env), root)
    _declare_subjects(env, [Subject(artifact) for artifact in artifacts], targets, verbs)


def _refuse_ranks(workspace: Workspace, root: Path) -> None:
    """Raise for options that only distributed programs accept; not if several artifacts are named, since others may
    accept them.
    """
    for name in ("WORLD", "DEVICES", "RANK"):
        if workspace.options[name] != OPTIONS[name].default and not workspace.of_batch:
            raise ArtifactError(
                f"{name}={workspace.options[name]}", f"{root.name} is a program for one chip", "leave it out"
            )


def _declare_subjects(env: Environment, subjects: list[Subject], requested: list[str], verbs: list[Verb]) -> None:
    """Declare the nodes of programs with their data, and the targets on them."""
    workspace = workspace_of(env)
    needs = [VERBS[target].adapted_to(workspace.options).needs if target in VERBS else None for target in requested]
    builds = not needs or any(need is not Needs.INTERFACE for need in needs)
    tools = [VERBS[target] for target in requested if target in VERBS and VERBS[target].needs is not Needs.TRIAGE]
    variants = {_variant(workspace, verb) for verb in tools} | ({None} if len(tools) < len(requested) else set())
    only = variants.pop() if len(variants) == 1 else None
    wished = {name: value for verb in verbs for name, value in verb.replay_with.items()}
    chosen = {name: value for name, value in wished.items() if workspace.options[name] == OPTIONS[name].default}
    on_stale = (
        partial(prestart_replay, env, subjects[0], chosen) if requested == ["replay"] and len(subjects) == 1 else None
    )
    selected = [targets_of(env, subject, None, only, builds, on_stale) for subject in subjects]
    built = [node for targets in _once(selected) for node in targets.all]
    looked_at = any(verb.needs in (Needs.REPLAY, Needs.TRIAGE) for verb in verbs)
    verdicts: list[Nodes] = []
    if "replay" in requested or not requested or looked_at:
        alone = len(selected) == 1
        verdicts = [
            declare_replay(
                env,
                targets,
                subject.data,
                chosen=chosen,
                tolerant=looked_at,
                alone=alone,
                of_a_test=len(subjects) > 1 and bool(subject.origin),
                subject=subject,
            )
            for subject, targets in zip(subjects, selected, strict=True)
        ]
    for verb in verbs:
        from pypto_build.rules.verb_targets import declare_verb

        for subject, targets, verdict in zip(subjects, selected, verdicts or [()] * len(selected), strict=True):
            needed = targets_of(env, subject, variant=_variant(workspace, verb), needed=builds)
            if subject.distributed is not None:
                from pypto_build.rules.distributed import declare_tool

                declare_tool(env, verb, targets, needed, verdict)
                continue
            if verb.needs is Needs.TRIAGE:
                from pypto_build.rules.triage import declare_triage

                declare_triage(env, verb, targets, needed, verdict, subject.data)
                continue
            looked = verdict if verb.needs is Needs.REPLAY else ()
            beside = None
            if verb.needs in _BESIDE_A_REPLAY:
                beside = declare_loaded(env, subject.artifact, variant=workspace.own_variant(USUAL), needed=builds)
            declare_verb(env, verb, subject.artifact.root, needed, looked, subject.data, beside)
    parts = _once([part for targets in selected for part in targets.parts or (targets,)])
    for targets in parts:
        with span("commands for editors"):
            update_compile_commands(workspace, targets)
    env.Alias("build", built)
    if "build" in requested:
        env.AlwaysBuild(env.Alias("build", [], Action(tell_all_built, None), PYPTO_BUILT=selected))
    if "splice" in requested or not requested:
        from pypto_build.rules.pto_targets import declare_splice

        declare_splice(env, parts)
    if "replay" in requested and wants_files(workspace) and not looked_at:
        outcomes_of(workspace)  # written at the end, even if nothing comes of it
    if "graph" in requested:
        from pypto_build.rules.graph import declare_graph

        declare_graph(env, parts)
    if verdicts:
        env.AlwaysBuild(env.Alias("replay", [*verdicts, *built], Action(finish_replays, None)))


def _once(selected: list[ArtifactTargets]) -> list[ArtifactTargets]:
    """Return each artifact once, regardless of its data."""
    return list({id(targets): targets for targets in selected}.values())


def _variant(workspace: Workspace, verb: Verb) -> str | None:
    """Return the variant of the binaries that ``verb`` needs; None if the options decide."""
    match verb.needs:
        case Needs.CHECKED | Needs.TRACED | Needs.TRIAGE:
            return workspace.own_variant(CHECKED)
        case Needs.DEBUGGED:
            return workspace.own_variant(DEBUGGED)
        case Needs.FOR_SIMPLER:
            return FOR_SIMPLER.directory if workspace.platform().simulated else USUAL.directory
    return None


def _declare_without_artifact(env: Environment) -> None:
    """Declare the named targets that need no artifact."""
    named = set(map(str, COMMAND_LINE_TARGETS))
    if "compile" in named:
        _declare_compile(env)
    if "fetch" in named:
        from pypto_build.rules.verb_targets import declare_fetch

        declare_fetch(env)
    if "gc" in named:
        from pypto_build.rules.housekeeping import declare_gc

        declare_gc(env)


def _declare_compile(env: Environment) -> None:
    """Declare the program of ``PROGRAM=``."""
    program = workspace_of(env).options["PROGRAM"]
    if not program:
        raise ArtifactError(
            "PROGRAM=",
            "'scons compile' needs a program",
            "name a Python file with PROGRAM=, such as examples/vector_dag.py",
        )
    workspace, source = workspace_of(env), os.path.abspath(program)
    if not (os.path.isfile(source) or scripts_make()):
        raise ArtifactError(program, "no such file", "name a Python program with PROGRAM=")
    from pypto_build.rules.program import declare_program

    env.Alias("compile", declare_program(env, name=Path(program).stem, source=source))
    workspace.at_end.append(partial(_tell_next, workspace, f"_jit_{Path(program).stem}"))


def _tell_next(workspace: Workspace, name: str) -> None:
    """Print the next command after a program was compiled."""
    if workspace.progress.failures or not workspace.progress.renewed or workspace.options["SKIP_PTOAS"]:
        return
    build_output = Path(workspace.options.build_output)
    artifact = name if build_output == Path("build_output") else str(build_output / name)
    words = (
        ["pypto-build", "replay", artifact] if STATUS_VARIABLE in os.environ else ["scons", "replay", f"JIT={artifact}"]
    )
    terminal.say(f"[pto] next: {shlex.join(words)}")
