"""``PtoArtifact``: every file of an artifact as a node."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from SCons.Node import up_to_date

from pypto_build import terminal
from pypto_build.artifact import Artifact, artifact_name, detect_vintage, lacks_kernels, load_artifact
from pypto_build.artifact.files import read_source
from pypto_build.artifact.first_sight import remember
from pypto_build.artifact.manifest_writer import ways
from pypto_build.facts.platforms import Platform
from pypto_build.facts.run_options import SIMPLER
from pypto_build.proof import OutputDir
from pypto_build.proof.known import NEVER, few
from pypto_build.rules.completion import open_artifact
from pypto_build.rules.embedded_runtime import embedded_runtime
from pypto_build.rules.machinery.attributes import PLATFORM, Kind, Rule, path_attribute
from pypto_build.rules.machinery.deferred import Deferred, declare_deferred
from pypto_build.rules.machinery.inputs import leave_to_cleaning, made_by_users, path_of, stands_for
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.recipes import recipe_of
from pypto_build.rules.machinery.scons_types import Environment, Node, Nodes
from pypto_build.rules.machinery.staleness import find_units
from pypto_build.rules.machinery.steps import Step, all_proven, declare_step, perform
from pypto_build.rules.machinery.workspace import Workspace, escape, workspace_of
from pypto_build.rules.splice import Spliced, Splices, declare_splices, find_splices
from pypto_build.rules.units import Compilation, Plan, declare_unit, ensure, includes_made
from pypto_build.trace import span

ARTIFACT = Rule(
    "PtoArtifact",
    "Builds everything of one artifact: kernels, orchestration, signed manifest.",
    (
        path_attribute("dir", Kind.DIRECTORY, "the artifact's directory", required=True),
        PLATFORM,
    ),
)


KERNEL_CONFIG = Rule(
    "KernelConfig",
    "Writes the signed manifest of an artifact, and the interface a replay binds data by.",
    (path_attribute("artifact", Kind.DIRECTORY, "the artifact's directory", required=True), PLATFORM),
)


@dataclass(frozen=True)
class ArtifactTargets:
    """The nodes of one artifact for one platform, for rules that build on it."""

    artifact: Artifact
    platform: Platform
    output: Path
    variant: str  # the way the binaries are built; empty for the usual one
    plans: tuple[Plan, ...]
    splices: Splices
    steps: tuple[tuple[Step, ...], ...]  # of every plan
    spliced: Spliced  # kernel files with the bodies of edited modules
    binaries: list[Node]  # the nodes of what has to be built
    signing: Step
    config: Nodes  # [signed kernel_config.py, interface.json]
    is_stale: bool  # whether a unit has to be built
    embedded: Node | None  # the embedded runtime's module; None where simpler's runtime is used
    parts: tuple[ArtifactTargets, ...] = ()  # the chip programs of a distributed artifact
    files: tuple[Path, ...] = ()  # what a replay reads besides

    @property
    def binaries_dir(self) -> Path:
        """Return the directory of this variant's binaries."""
        return self.output / self.variant

    @property
    def all(self) -> list[Node]:
        """Return all nodes that a replay needs."""
        return [*([self.embedded] if self.embedded else []), *self.spliced.nodes, *self.binaries, *self.config]

    @property
    def interface(self) -> Path:
        """Return the path of the interface, by which a replay binds data."""
        return self.output / "interface.json"

    @property
    def binary_paths(self) -> list[str]:
        """Return the paths of all binaries that a runtime loads, as text: there may be thousands."""
        prefix = os.path.join(self.binaries_dir, "")
        own = [prefix + plan.binary for plan in self.plans]
        return [*own, *(path for part in self.parts for path in (*part.binary_paths, str(part.interface)))]

    def ensure(self, workspace: Workspace) -> int:
        """Check again just before the binaries are used: a source may have been edited since this run began.

        Return the status of the first step that fails.
        """
        with span("look at what is used"):
            stale = [unit for unit, proven in zip(self.steps, _are_proven(self.steps), strict=True) if not proven]
            failed = next((status for unit in stale if (status := ensure(workspace, list(unit)))), 0)
        failed = failed or next((status for part in self.parts if (status := part.ensure(workspace))), 0)
        return failed or perform(workspace, self.signing).status


#: Is told of an artifact that most likely has to be built; what it is built by is not known yet.
OnStale = Callable[[ArtifactTargets], None]


def chip_words(targets: ArtifactTargets) -> list[str]:
    """Return the flags that tell a tool the build directories of a distributed artifact's chip programs; none for
    others.
    """
    return [word for part in targets.parts for word in ("--chip", f"{part.artifact.root.name}={part.output}")]


class Artifacts:
    """The declarations of one environment: the nodes of each OUT, by variant."""

    def __init__(self) -> None:
        self.by_output: dict[Path, dict[str, ArtifactTargets]] = {}
        self.parts: dict[Path, _Parts] = {}  # what rules ask for of an artifact, by its OUT


def declare_artifact(env: Environment, **attributes: Any) -> Nodes:
    """Implement the rule; return the nodes of the artifact's directory and of its signed manifest in OUT."""
    values = ARTIFACT.check(attributes, env)
    manifest = _declare_parts(env, values["dir"], values["platform"], whole=True)[:1]
    stands_for(manifest, values["dir"])
    return [values["dir"], *manifest]


def declare_kernel_config(env: Environment, **attributes: Any) -> Nodes:
    """Implement ``KernelConfig``; return the nodes of the manifest and of the interface."""
    values = KERNEL_CONFIG.check(attributes, env)
    return _declare_parts(env, values["artifact"], values["platform"], whole=False)


def _declare_parts(env: Environment, directory: Node, platform_name: str | None, whole: bool) -> Nodes:
    """Declare manifest and interface of an artifact and return their nodes; with ``whole``, they come after the
    binaries.
    """
    workspace = workspace_of(env)
    platform = workspace.platform(platform_name)
    output = workspace.output_path(artifact_name(path_of(directory)), platform)
    nodes = [env.File(escape(str(output / name))) for name in ("kernel_config.py", "interface.json")]
    parts = env["PYPTO_ARTIFACTS"].parts
    if output not in parts:
        parts[output] = _Parts(env, directory, platform_name, nodes)
        deferred = Deferred(env, lambda: [directory], parts[output].declare)
        workspace.deferred.append((output, deferred))
        leave_to_cleaning(declare_deferred(env, nodes, deferred, parts[output].sign))
    parts[output].whole |= whole
    return nodes


class _Parts:
    """The declarations of an artifact that already exists."""

    def __init__(self, env: Environment, directory: Node, platform_name: str | None, nodes: Nodes) -> None:
        self._env = env
        self._nodes = nodes  # the manifest and the interface, which wait for the rest
        self._directory = directory
        self._platform = platform_name
        self.whole = False  # whether the binaries are wanted
        self._targets: ArtifactTargets | None = None

    def declare(self) -> Nodes:
        """Return the nodes of the binaries, if they are needed."""
        env = self._env
        artifact = open_artifact(workspace_of(env), path_of(self._directory), self._platform)
        self._targets = declare_loaded(env, artifact, self._platform, needed=self.whole)
        if not self.whole:
            return self._targets.spliced.nodes
        return [node for node in self._targets.all if node not in self._nodes]

    def sign(self) -> int:
        """Sign the manifest; its nodes are those that wait for the other files."""
        assert self._targets is not None
        workspace = workspace_of(self._env)
        return self._targets.ensure(workspace) if self.whole else perform(workspace, self._targets.signing).status


def declare_loaded(
    env: Environment,
    artifact: Artifact,
    platform_name: str | None = None,
    variant: str | None = None,
    needed: bool = True,
    on_stale: OnStale | None = None,
) -> ArtifactTargets:
    """Declare the nodes of an artifact that has been read already; its binaries are built as ``variant`` (default: by
    CHECK=).

    If no binaries are ``needed``, missing compilers of the platform are no error. ``on_stale`` is called with an
    artifact that most likely must be built, before all its units are checked.
    """
    workspace = workspace_of(env)
    platform = workspace.platform(platform_name)
    output = workspace.output(artifact.name, artifact.root, platform)
    remember(output, artifact)
    variant = workspace.variant(platform) if variant is None else variant
    artifacts: Artifacts = env["PYPTO_ARTIFACTS"]
    declared = artifacts.by_output.setdefault(output, {})
    if variant not in declared:
        twin = next(iter(declared.values()), None)  # another variant has all but the binaries in common
        splices = twin.splices if twin else find_splices(workspace, artifact, output, platform)
        output_dir = workspace.output_dir(output, artifact=artifact.root)
        selected = (workspace, output_dir, artifact, platform, variant, splices)
        planned = _planned(*selected) if needed or platform.simulated else _Planned()
        plans = planned.plans
        spliced = twin.spliced if twin else declare_splices(env, output_dir, splices)
        signing = twin.signing if twin else sign_step(workspace, output_dir, artifact)
        targets = ArtifactTargets(
            artifact,
            platform,
            output,
            variant,
            tuple(plans),
            splices,
            (),
            spliced,
            [],
            signing,
            twin.config if twin else declare_config(env, signing),
            True,
            twin.embedded if twin else embedded_runtime(env) if workspace.runtime(platform) != SIMPLER else None,
        )
        proven = _check_units(output_dir, planned, partial(on_stale, targets) if on_stale else None)
        steps = planned.steps()
        built = _declare_binaries(env, artifact, plans, steps, proven, spliced) if plans else _prebuilt(env, artifact)
        is_stale = bool(plans and built) and not workspace.whole_graph
        declared[variant] = replace(targets, steps=tuple(map(tuple, steps)), binaries=built, is_stale=is_stale)
    return declared[variant]


@dataclass
class _Planned:
    """The build plans of an artifact's units; ``of`` has the values that determine them.

    Steps are created on first use, in the order of the plans.
    """

    of: tuple[object, ...] = ()
    plans: list[Plan] = field(default_factory=list)
    compilation: Compilation | None = None
    made: list[list[Step]] = field(default_factory=list)

    def steps(self) -> list[list[Step]]:
        """Return the steps of every unit."""
        if self.compilation and not self.made:
            self.made = [self.compilation.steps(plan) for plan in self.plans]
        return self.made


def _check_units(output_dir: OutputDir, planned: _Planned, start: Callable[[], None] | None) -> list[bool]:
    """For each unit, return True if it is up to date. ``start`` is called as soon as a unit most likely must be
    built.
    """
    in_fork = bool(planned.made)  # looking takes no longer than guessing, then
    if start and not in_fork and output_dir.may_differ(plan.compiled for plan in planned.plans):
        start()
    with span("plan units"):
        steps = planned.steps()
    with span("look at units"):
        proven = _are_proven(steps)
    if start and in_fork and not all(proven):
        start()
    return proven


def _planned(
    workspace: Workspace, output_dir: OutputDir, artifact: Artifact, platform: Platform, variant: str, splices: Splices
) -> _Planned:
    """Return the plan of every unit; none with SKIP_COMPILE=1."""
    if workspace.options["SKIP_COMPILE"] and workspace.runtime(platform) == SIMPLER:
        return _Planned()
    entry = artifact.orchestration.source
    detect_vintage(read_source(entry), entry)  # an unknown one ends here, in one line
    recipe = recipe_of(workspace, platform, variant, artifact.runtime)
    of = (artifact, platform, variant, splices, recipe)
    planned = workspace.extras.get(f"units of {output_dir.directory}")
    if not isinstance(planned, _Planned) or planned.of != of:  # in a fork it is what it was before, if that is the same
        compilation = Compilation(workspace, recipe, output_dir, variant, artifact.root)
        planned = _Planned(of, _plan(artifact, compilation, splices), compilation)
        workspace.extras[f"units of {output_dir.directory}"] = planned
    return planned


def units_of(workspace: Workspace, artifact: Artifact, platform: Platform) -> list[list[Step]]:
    """Return the steps of the units of an artifact without modules, as `declare_loaded` makes them; it raises the same
    errors.
    """
    output = workspace.output(artifact.name, artifact.root, platform)
    output_dir = workspace.output_dir(output, artifact=artifact.root)
    return _planned(workspace, output_dir, artifact, platform, workspace.variant(platform), Splices()).steps()


def precheck_units(workspace: Workspace, root: Path, platform: Platform) -> tuple[Sequence[Plan], Path]:
    """Check the units of an artifact in advance, for processes that are forked from this one.

    OUT is not changed, and each fork checks everything again. Return the plans and the directory of the binaries; no
    plans for an unsupported artifact.
    """
    if lacks_kernels(root) or not platform.simulated:
        return (), root
    artifact = load_artifact(root, workspace.manifests)
    output = workspace.output_path(artifact.name, platform)
    output_dir = workspace.output_dir(output, artifact=root)
    with workspace.shown_as_output(output, root):
        selected = (workspace, output_dir, artifact, platform, workspace.variant(platform), Splices())
        planned = _planned(*selected)
        planned.steps()
    _are_proven(planned.steps(), repeated=True)
    workspace.manifests.look()
    workspace.forget_checks()
    return planned.plans, output / workspace.variant(platform)


def _prebuilt(env: Environment, artifact: Artifact) -> list[Node]:
    """Return the binaries that lie beside the artifact's own sources, for a run that uses them unchanged."""
    sources = [artifact.orchestration.source, *(kernel.source for kernel in artifact.kernels)]
    paths = [source.with_suffix(suffix) for source in sources for suffix in (".so", ".o")]
    return [env.File(escape(str(path))) for path in paths if path.is_file()]


def sign_step(workspace: Workspace, output_dir: OutputDir, artifact: Artifact) -> Step:
    """Return the step that signs the manifest and derives the interface from manifest and orchestration."""
    manifest, interface = "kernel_config.py", "interface.json"
    inputs = [artifact.manifest_path, artifact.orchestration.source]
    if artifact.meta is not None:
        inputs.append(artifact.root / "compiled_meta.json")
    argv = [str(artifact.root), "--manifest", f"{output_dir.path(manifest)}.tmp"]
    argv += ["--interface", f"{output_dir.path(interface)}.tmp"]
    action = python_tool(
        workspace,
        "pypto_build.artifact.sign",
        argv,
        name=manifest,
        inputs=inputs,
        outputs=(manifest, interface),
        toolkits=False,
        settings={
            "the name of the artifact": artifact.name,
            "where its files lie": "\n".join(ways(artifact, output_dir.directory)),
        },
    )
    step = Step(output_dir, action, "[manifest] sign", workspace.short(artifact.manifest_path))
    return replace(step, spawn=workspace.forks.run, forks=workspace.forks) if workspace.forks else step


def declare_config(env: Environment, step: Step) -> Nodes:
    """Return the nodes of the signed manifest and of the interface, from the rule that signs them if there is one."""
    nodes = [env.File(escape(str(step.output_dir.path(name)))) for name in step.action.outputs]
    if nodes[0].has_builder():
        return nodes
    return declare_step(env, step, [env.File(escape(path)) for path in step.action.inputs])


def _plan(artifact: Artifact, compilation: Compilation, splices: Splices) -> list[Plan]:
    plans = []
    for kernel in artifact.kernels:
        plan = compilation.kernel(kernel)
        if file := splices.file(kernel.name):
            plan = plan.with_splice(file)
        plans.append(plan)
    return [*plans, compilation.orchestration(artifact.orchestration)]


def _declare_binaries(
    env: Environment,
    artifact: Artifact,
    plans: list[Plan],
    steps: list[list[Step]],
    proven: list[bool],
    spliced: Spliced,
) -> list[Node]:
    """Return the nodes of the units that must be built; of all units if the whole graph is requested.

    SCons spends a millisecond on every node, so proven units have none.
    """
    workspace = workspace_of(env)
    unsettled = [
        not looked or not (plan.spliced is None or spliced.proven) for plan, looked in zip(plans, proven, strict=True)
    ]
    directory = steps[0][0].output_dir.directory
    stale = [unit[-1].action.name for unit, changed in zip(steps, unsettled, strict=True) if changed]
    workspace.progress.expect((directory, name) for name in stale)
    made = set(made_by_users())
    includes = [includes_made(env, plan, made) if made else None for plan in plans]
    are_declared = [workspace.whole_graph or stale or bool(of) for stale, of in zip(unsettled, includes, strict=True)]
    if workspace.whole_graph:
        _declare_modules(env, artifact)
    units = zip(steps, are_declared, includes, strict=True)
    return [declare_unit(env, unit, *(of or ())) for unit, declared, of in units if declared]


def _are_proven(units: Sequence[Sequence[Step]], repeated: bool = False) -> list[bool]:
    """For each unit of one output directory, return True if it is up to date."""
    proven = iter(all_proven([step for unit in units for step in unit], repeated))
    return [all(list(islice(proven, len(unit)))) for unit in units]


def _declare_modules(env: Environment, artifact: Artifact) -> None:
    """Declare unedited modules as sources of their kernels, only for drawing the tree."""
    for unit in find_units(artifact):
        for kernel in unit.kernels:
            source = env.File(escape(str(kernel.source)))
            if source.get_state() < up_to_date:  # SCons has not come to it
                env.Depends(source, env.File(escape(str(unit.path))))


def tell_built(workspace: Workspace, targets: ArtifactTargets, why: str = "") -> None:
    """Print once which files were rebuilt and why; if none was, print ``why`` the replay runs. Users search logs for
    these lines.
    """
    reported = workspace.progress.reported
    for part in targets.parts:
        tell_built(workspace, part, why)
    if not targets.plans or (targets.output, targets.variant) in reported:
        return
    reported.add((targets.output, targets.variant))
    several = f"{targets.artifact.name}: " if len(workspace.outputs) > 1 else ""
    built, restored = _renewed(workspace, targets, "built"), _renewed(workspace, targets, "restored")
    files = built | {name: reason for name, reason in restored.items() if name not in built}
    if not files:
        why = "a first run with these options" if why == NEVER else why
        named = ": ".join(filter(None, [targets.artifact.name if several else "", why]))
        because = f"  ({named})" if named else ""
        kept = f"reusing cached binaries{f' of {targets.variant}/' if targets.variant else ''}"
        terminal.say(f"[cpp->.so] no cpp edits since last build; {kept}{because}")
        return
    listed = f"({len(files)} file(s)): {several}{few(list(files), 5)}"
    where = f" in {targets.variant}/" if targets.variant else ""
    done = f"rebuilding{where}" if built else f"restored{where} as they were made before"
    reasons = few(list(dict.fromkeys(filter(None, files.values()))), 2)
    terminal.say(
        f"[cpp->.so] cpp edits or missing binaries detected {listed}; {done}" + (f"  ({reasons})" if reasons else "")
    )


def tell_all_built(target: Nodes, source: Nodes, env: Environment) -> None:
    """Print, as an action, which files of the artifacts in ``PYPTO_BUILT`` were rebuilt."""
    for targets in env["PYPTO_BUILT"]:
        tell_built(workspace_of(env), targets)


def _renewed(workspace: Workspace, targets: ArtifactTargets, how: str) -> dict[str, str]:
    """Return the sources whose objects or binaries are new in this run, with the reason of their first new step."""
    progress, reasons = workspace.progress, {}
    for plan, steps in zip(targets.plans, targets.steps, strict=True):
        keys = [(step.output_dir.directory, step.action.name) for step in steps]
        if any(progress.how.get(key) == how for key in keys):
            name = workspace.short(plan.source)
            reason = next((progress.reasons[key] for key in keys if key in progress.reasons), "")
            reasons[name] = "content changed" if reason == f"content of {name} changed" else reason
    return reasons
