"""Compile and link: the two nodes of a kernel or an orchestration."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pypto_build.artifact import Kernel, Orchestration
from pypto_build.rules.actions import command
from pypto_build.rules.frontier import Unit
from pypto_build.rules.precompiled import precompile, stand_in
from pypto_build.rules.reason import setting
from pypto_build.rules.workspace import Workspace, escape, workspace_of
from pypto_build.toolchain.recipe import Recipe, UnitRecipe


@dataclass(frozen=True)
class Plan:
    """How one unit is made: its recipe, and what it adds to that."""

    unit: Unit
    recipe: UnitRecipe
    extra_dirs: tuple[Path, ...] = ()
    extra_flags: tuple[str, ...] = ()
    spliced: Path | None = None  # what is compiled instead of the unit's own source

    def with_splice(self, file: Path, key: str) -> Plan:
        """The plan for compiling ``file``, a new version of the source that depends on ``key`` besides."""
        combined = hashlib.sha256(f"{self.unit.key} {key}".encode()).hexdigest()
        flags = ("-iquote", str(self.unit.source.parent))
        return replace(self, unit=replace(self.unit, key=combined), extra_flags=flags, spliced=file)

    def compile_argv(self, source: str, target: str) -> list[str]:
        """The compile command for these file names."""
        return self.recipe.compile_argv(source, target, self.extra_dirs, self.extra_flags)


class Compilation:
    """What the compilations of one artifact for one platform have in common."""

    def __init__(self, workspace: Workspace, recipe: Recipe) -> None:
        self._workspace = workspace
        self._recipe = recipe

    def kernel(self, kernel: Kernel) -> Plan:
        """How a kernel is made."""
        return self._plan(kernel.binary, kernel.core_type, kernel.source, kernel.extra_include_dirs)

    def orchestration(self, orchestration: Orchestration) -> Plan:
        """How an orchestration is made."""
        return self._plan(orchestration.binary, "orchestration", orchestration.source)

    def _plan(self, name: str, kind: str, source: Path, extra_dirs: tuple[Path, ...] = ()) -> Plan:
        """The plan of ``source``, keyed over everything its binary depends on."""
        recipe = self._recipe[kind]
        headers = self._workspace.headers(recipe.include_dirs)
        content = [headers.key(str(source), [str(directory) for directory in extra_dirs])]
        content += [headers.key(str(path)) for path in recipe.also]
        commands = [recipe.compile_argv("", "", extra_dirs), *(step.words for step in recipe.steps)]
        key = hashlib.sha256(json.dumps([content, recipe.identity, commands]).encode()).hexdigest()
        return Plan(Unit(name, source, key, recipe.suffix), recipe, extra_dirs)


def declare_unit(env: Any, output: Path, plan: Plan) -> Any:
    """The nodes of a unit, one for each command; returns that of its binary."""
    workspace = workspace_of(env)
    unit, recipe = plan.unit, plan.recipe
    target = str(output / unit.name)
    compiler, *words = _template(plan.compile_argv("$SOURCE", "${TARGET}.tmp"))
    index = workspace.headers(recipe.include_dirs)
    reached = index.headers(str(unit.source), [str(path) for path in plan.extra_dirs])
    header = None if workspace.launcher else stand_in(recipe, index, reached)
    unsigned = ["$(", "-include", escape(str(header)), "$)"] if header else []
    node = env.Command(
        escape(f"{target}.o"),
        env.File(escape(str(plan.spliced or unit.source))),
        command(
            "[cpp->.so] compile",
            [*workspace.launcher, compiler, *unsigned, *words],
            show=lambda _: workspace.short(unit.source),
        ),
    )
    env.Depends(node, _files(env, reached))
    if header and (precompiled := precompile(env, recipe, header)):
        env.Requires(node, precompiled)
    made = [node]
    for step in recipe.steps:
        binary = f"{unit.name}{step.suffix}"
        argv = _template(step.argv("$SOURCE", "${TARGET}.tmp"))
        announced = command(f"[cpp->.so] {step.label}", argv, show=lambda _, binary=binary: binary)  # type: ignore[misc]
        node = env.Command(escape(f"{target}{step.suffix}"), node, announced)
        made.append(node)
    for path in recipe.also:
        env.Depends(made[1], _files(env, [str(path), *index.headers(str(path))]))
    env.Depends(made, setting(env, "the compiler", recipe.identity))
    return node


def _files(env: Any, paths: Iterable[str]) -> list[Any]:
    return [env.File(escape(path)) for path in paths]


def _template(argv: Sequence[str]) -> list[str]:
    """``argv`` for SCons: its own two variables stay, any other dollar sign is a dollar sign."""
    return [word if word in ("$SOURCE", "${TARGET}.tmp") else escape(word) for word in argv]
