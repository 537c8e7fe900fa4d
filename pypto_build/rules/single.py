"""``PtoKernel``, ``PtoOrchestration`` and ``KernelConfig``: the parts of an artifact as rules of their own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pypto_build.artifact import CORE_TYPES, Kernel, Orchestration, load_artifact
from pypto_build.facts.platforms import TENSORMAP
from pypto_build.rules.artifact import declare_config, sign_step
from pypto_build.rules.machinery.attributes import PLATFORM, Attribute, Rule, RuleError
from pypto_build.rules.machinery.recipes import recipe_of
from pypto_build.rules.machinery.scons_types import Environment, Node, Nodes
from pypto_build.rules.machinery.workspace import Workspace, workspace_of
from pypto_build.rules.targets import TARGETS
from pypto_build.rules.units import Compilation, declare_unit
from pypto_build.rules.variants import USUAL

KERNEL = Rule(
    "PtoKernel",
    "Compiles and links one kernel.",
    (
        Attribute("name", (str,), "the name of the library, and of the target that builds it", required=True),
        Attribute("source", (str, Path), "the kernel's C++ file", required=True),
        Attribute("core_type", (str,), "the core it runs on", required=True, choices=CORE_TYPES),
        Attribute("extra_include_dirs", (list, tuple), "directories of headers of its own"),
        PLATFORM,
    ),
)

ORCHESTRATION = Rule(
    "PtoOrchestration",
    "Compiles and links one orchestration.",
    (
        Attribute("source", (str, Path), "the orchestration's C++ file", required=True),
        PLATFORM,
    ),
)

KERNEL_CONFIG = Rule(
    "KernelConfig",
    "Writes the signed manifest of an artifact, and the interface a replay binds data by.",
    (Attribute("artifact", (str, Path), "the artifact's directory", required=True), PLATFORM),
)

# Units that belong to no artifact are built here, below the platform.
_LOOSE = "units"


def declare_kernel(env: Environment, **given: Any) -> Node:
    """Implements ``PtoKernel``; returns the library's node."""
    values = KERNEL.check(given)
    workspace = workspace_of(env)
    dirs = tuple(_source(workspace, directory) for directory in values["extra_include_dirs"] or ())
    kernel = Kernel(
        0, values["name"], _source(workspace, values["source"]), values["core_type"], extra_include_dirs=dirs
    )
    compilation = _loose(workspace, values["platform"])
    node = declare_unit(env, compilation.steps(compilation.kernel(kernel)))
    if values["name"] not in TARGETS:
        env.Alias(values["name"], node)
    return node


def declare_orchestration(env: Environment, **given: Any) -> Node:
    """Implements ``PtoOrchestration``; returns the library's node."""
    values = ORCHESTRATION.check(given)
    workspace = workspace_of(env)
    source = _source(workspace, values["source"])
    compilation = _loose(workspace, values["platform"])
    return declare_unit(env, compilation.steps(compilation.orchestration(Orchestration(source))))


def declare_kernel_config(env: Environment, **given: Any) -> Nodes:
    """Implements ``KernelConfig``; returns the nodes of the manifest and of the interface."""
    values = KERNEL_CONFIG.check(given)
    workspace = workspace_of(env)
    artifact = load_artifact(os.path.join(workspace.top, values["artifact"]))
    output = workspace.output(artifact.name, artifact.root, workspace.platform(values["platform"]))
    return declare_config(env, sign_step(workspace, workspace.place(output), artifact))


def _source(workspace: Workspace, path: str | Path) -> Path:
    absolute = Path(os.path.abspath(workspace.top / path))
    if not absolute.exists():
        raise RuleError(f"{path}: no such file or directory; name one below {workspace.top}")
    return absolute


def _loose(workspace: Workspace, platform_name: str | None) -> Compilation:
    platform = workspace.platform(platform_name)
    place = workspace.place(workspace.output(_LOOSE, workspace.top, platform))
    recipe = recipe_of(workspace, platform, USUAL.directory, TENSORMAP)
    return Compilation(workspace, recipe, place, USUAL.directory, workspace.top)
