"""``scons graph JIT=x``: prints the dependencies of an artifact, and which files would be made. Nothing is built."""

from __future__ import annotations

from collections.abc import Iterator

from SCons.Action import Action

from pypto_build import terminal
from pypto_build.artifact import snapshot
from pypto_build.rules.artifact import ArtifactTargets
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.staleness import find_units
from pypto_build.rules.machinery.steps import Step
from pypto_build.rules.machinery.workspace import Workspace, workspace_of
from pypto_build.rules.units import Plan


def graph_lines(workspace: Workspace, targets: ArtifactTargets) -> Iterator[str]:
    """Yield the tree of one artifact: outputs with their states, below each what it is made from, sources last."""
    modules = {kernel.source: unit.path for unit in find_units(targets.artifact) for kernel in unit.kernels}
    yield f"{targets.artifact.name}  {workspace.short_of_top(targets.output)}"
    yield "  verdict.json"
    for plan, steps in zip(targets.plans, targets.steps, strict=True):
        yield from (f"    {line}" for line in _unit(workspace, plan, steps))
        if module := modules.get(plan.source):
            depth = 2 * len(steps) + 2 + (2 if plan.spliced else 0)
            yield f"    {' ' * depth}{workspace.short(module)}"
    yield _output(4, targets.signing, "interface.json")
    yield from (f"      {workspace.short(path)}" for path in targets.signing.action.inputs)
    data = snapshot(targets.artifact)
    for path in (*data.inputs.values(), *data.outputs.values()):
        yield f"    {workspace.short(path)}"


def _unit(workspace: Workspace, plan: Plan, steps: tuple[Step, ...]) -> Iterator[str]:
    """Return the lines of a unit, from the binary down to the source."""
    for depth, step in enumerate(reversed(steps)):
        yield _output(2 * depth, step, step.action.outputs[0])
    depth = 2 * len(steps)
    if plan.spliced:
        yield f"{' ' * depth}{workspace.short(plan.spliced)}"
        depth += 2
    yield f"{' ' * depth}{workspace.short(plan.source)}"


def _output(depth: int, step: Step, name: str) -> str:
    return f"{' ' * depth}{name}" + ("" if step.proven else f"  (to be built: {step.reason})")


def declare_graph(env: Environment, selected: list[ArtifactTargets]) -> None:
    """Declare the target that prints the graph."""
    env.AlwaysBuild(env.Alias("graph", [], Action(_print, None), PYPTO_BUILT=selected))


def _print(target: Nodes, source: Nodes, env: Environment) -> None:
    for targets in env["PYPTO_BUILT"]:
        terminal.say(*graph_lines(workspace_of(env), targets))
