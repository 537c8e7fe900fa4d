"""``PtoArtifact``: every file of an artifact as a node."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from SCons.Action import Action

from pypto_build.artifact import Artifact, detect_vintage
from pypto_build.rules.actions import command
from pypto_build.rules.attributes import Attribute, Rule
from pypto_build.rules.completion import open_artifact
from pypto_build.rules.embedded_runtime import embedded_runtime
from pypto_build.rules.frontier import BINARIES, RECORD, Frontier, find_frontier, settle
from pypto_build.rules.reason import few, setting
from pypto_build.rules.recipes import recipe_of
from pypto_build.rules.sources import tool_digest
from pypto_build.rules.splice import Splices, declare_splices, find_splices
from pypto_build.rules.units import Compilation, Plan, declare_unit
from pypto_build.rules.workspace import Workspace, escape, workspace_of
from pypto_build.toolchain import PLATFORMS, Platform
from pypto_build.toolchain.python import own_tool

ARTIFACT = Rule(
    "PtoArtifact",
    "Builds everything of one artifact: kernels, orchestration, signed manifest.",
    (
        Attribute("dir", (str, Path), "the artifact's directory", required=True),
        Attribute("platform", (str,), "what it is built for (default: PLATFORM=)", choices=tuple(PLATFORMS)),
    ),
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
    spliced: Any  # kernel files made anew from edited modules
    binaries: Any  # the list of all binaries by content: depends on every kernel and the orchestration
    config: Any  # [signed kernel_config.py, interface.json]
    embedded: Any  # the embedded runtime's module; None where simpler's runtime is used

    @property
    def binaries_dir(self) -> Path:
        """Where the binaries of this variant lie."""
        return self.output / self.variant

    @property
    def all(self) -> list[Any]:
        """Everything a replay needs."""
        return [*([self.embedded] if self.embedded else []), self.binaries, *self.config]


def declare_artifact(env: Any, **given: Any) -> ArtifactTargets:
    """Implements the rule."""
    values = ARTIFACT.check(given)
    root = Path(os.path.abspath(workspace_of(env).top / values["dir"]))
    artifact = open_artifact(workspace_of(env), root, values["platform"])
    return declare_loaded(env, artifact, values["platform"])


def declare_loaded(
    env: Any, artifact: Artifact, platform_name: str | None = None, variant: str | None = None
) -> ArtifactTargets:
    """The nodes of an artifact that has been read already, its binaries built as ``variant`` (default: by CHECK=)."""
    workspace = workspace_of(env)
    platform = workspace.platform(platform_name)
    output = workspace.output(artifact.name, artifact.root, platform)
    variant = workspace.variant(platform) if variant is None else variant
    declared: dict[str, ArtifactTargets] = workspace.declared.setdefault(output, {})
    if variant not in declared:
        twin = next(iter(declared.values()), None)  # another variant has all but the binaries in common
        splices = twin.splices if twin else find_splices(workspace, artifact, output, platform)
        plans = _plans(workspace, artifact, platform, variant, splices)
        declared[variant] = ArtifactTargets(
            artifact,
            platform,
            output,
            variant,
            tuple(plans),
            splices,
            twin.spliced if twin else declare_splices(env, output, splices),
            _declare_binaries(env, output / variant, plans) if plans else _prebuilt(env, artifact),
            twin.config if twin else declare_config(env, artifact, output),
            twin.embedded if twin else embedded_runtime(env) if workspace.runtime(platform) != "simpler" else None,
        )
    return declared[variant]


def _plans(workspace: Workspace, artifact: Artifact, platform: Platform, variant: str, splices: Splices) -> list[Plan]:
    """The plan of every unit; none with SKIP_COMPILE=1."""
    if workspace.options["SKIP_COMPILE"] and workspace.runtime(platform) == "simpler":
        return []
    entry = artifact.orchestration.source
    detect_vintage(entry.read_text(encoding="utf-8", errors="replace"), entry)  # an unknown one ends here, in one line
    recipe = recipe_of(workspace, platform, variant, artifact.runtime)
    return _plan(artifact, Compilation(workspace, recipe), splices)


def _prebuilt(env: Any, artifact: Artifact) -> list[Any]:
    """The binaries that lie beside the artifact's own sources, for a run that takes them as they are."""
    sources = [artifact.orchestration.source, *(kernel.source for kernel in artifact.kernels)]
    paths = [source.with_suffix(suffix) for source in sources for suffix in (".so", ".o")]
    return [env.File(escape(str(path))) for path in paths if path.is_file()]


def declare_config(env: Any, artifact: Artifact, output: Path) -> Any:
    """The signed manifest and the interface derived from manifest and orchestration."""
    workspace = workspace_of(env)
    manifest, interface = output / "kernel_config.py", output / "interface.json"
    words = [*own_tool("pypto_build.artifact.sign"), str(artifact.root)]
    words += ["--manifest", f"{manifest}.tmp", "--interface", f"{interface}.tmp"]
    sources = [artifact.manifest_path, artifact.orchestration.source]
    if artifact.meta is not None:
        sources.append(artifact.root / "compiled_meta.json")
    nodes = env.Command(
        [escape(str(manifest)), escape(str(interface))],
        [env.File(escape(str(source))) for source in sources],
        command("[manifest] sign", [escape(word) for word in words], show=lambda node: workspace.short(str(node))),
    )
    env.Depends(nodes, setting(env, "the manifest reader", tool_digest("artifact")))
    return nodes


def _plan(artifact: Artifact, compilation: Compilation, splices: Splices) -> list[Plan]:
    plans = []
    for kernel in artifact.kernels:
        plan = compilation.kernel(kernel)
        if file := splices.file(kernel.name):
            plan = plan.with_splice(file, splices.key(kernel.name))
        plans.append(plan)
    return [*plans, compilation.orchestration(artifact.orchestration)]


def _declare_binaries(env: Any, output: Path, plans: list[Plan]) -> Any:
    workspace = workspace_of(env)
    output.mkdir(exist_ok=True)
    units = [plan.unit for plan in plans]
    frontier = find_frontier(output, units)
    if workspace.builds_binaries:
        _announce(workspace, frontier)
    if frontier.complete and not workspace.whole_graph:
        return env.File(escape(str(output / BINARIES)))
    unsettled = set(frontier.unsettled)
    linked = [declare_unit(env, output, plan) for plan in plans if workspace.whole_graph or plan.unit in unsettled]
    keys = hashlib.sha256("\n".join(f"{unit.name} {unit.key}" for unit in units).encode()).hexdigest()
    listing = env.Command(
        [escape(str(output / BINARIES)), escape(str(output / RECORD))],
        [setting(env, "the kernels", keys), *linked],
        Action(_settle, None),
        PYPTO_SETTLE=(output, units, frontier.digests if not workspace.whole_graph else {}),
    )
    env.Precious(listing)
    return listing[0]


def _settle(target: Any, source: Any, env: Any) -> None:
    settle(*env["PYPTO_SETTLE"])


def _announce(workspace: Workspace, frontier: Frontier) -> None:
    """The two lines that people search logs for."""
    names = [workspace.short(unit.source) for unit in frontier.unsettled]
    if not names:
        print("[cpp->.so] no cpp edits since last build; reusing cached binaries")
        return
    print(f"[cpp->.so] cpp edits or missing binaries detected ({len(names)} file(s)): {few(names, 5)}; rebuilding")
