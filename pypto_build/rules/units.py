"""Compile and link: the two nodes of a kernel or an orchestration."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pypto_build.artifact import Kernel, Orchestration
from pypto_build.rules.actions import command
from pypto_build.rules.frontier import Unit
from pypto_build.rules.reason import setting
from pypto_build.rules.variants import VARIANTS
from pypto_build.rules.workspace import Workspace, escape, workspace_of
from pypto_build.toolchain import Platform, host


@dataclass(frozen=True)
class Plan:
    """How one unit is made: its compile flags, and the directories its headers come from."""

    unit: Unit
    flags: tuple[str, ...]
    extra_dirs: tuple[Path, ...] = ()
    spliced: Path | None = None  # what is compiled instead of the unit's own source

    def with_splice(self, file: Path, key: str) -> Plan:
        """The plan for compiling ``file``, a new version of the source that depends on ``key`` besides."""
        combined = hashlib.sha256(f"{self.unit.key} {key}".encode()).hexdigest()
        flags = (*self.flags, "-iquote", str(self.unit.source.parent))
        return replace(self, unit=replace(self.unit, key=combined), flags=flags, spliced=file)

    def compile_argv(self, workspace: Workspace, source: str, target: str) -> list[str]:
        """The compile command for these file names."""
        return host.compile_argv(workspace.compiler, self.flags, (host.INCLUDE_DIR, *self.extra_dirs), source, target)


class Compilation:
    """What the compilations of one artifact for one platform have in common."""

    def __init__(self, workspace: Workspace, platform: Platform, vintage: int, variant: str = "") -> None:
        compiler = workspace.compiler
        self._workspace = workspace
        macro = f"-DPYPTO_VINTAGE={vintage}"
        arch = workspace.options["ARCH"]
        extra = VARIANTS[variant].kernel_flags
        self._flags = {
            "aic": (*host.kernel_flags(compiler, platform, "aic", arch), macro, *extra),
            "aiv": (*host.kernel_flags(compiler, platform, "aiv", arch), macro, *extra),
            "orchestration": (*host.orchestration_flags(compiler, platform), macro),
        }

    def plan(self, name: str, kind: str, source: Path, extra_dirs: tuple[Path, ...] = ()) -> Plan:
        """The plan of ``source``, keyed over everything its binary depends on."""
        workspace = self._workspace
        flags = self._flags[kind]
        content = workspace.headers.key(str(source), [str(directory) for directory in extra_dirs])
        link = host.link_argv(workspace.compiler, "", "")
        recipe = json.dumps([content, workspace.compiler.identity, flags, [str(path) for path in extra_dirs], link])
        return Plan(Unit(name, source, hashlib.sha256(recipe.encode()).hexdigest()), flags, extra_dirs)


def plan_kernel(compilation: Compilation, kernel: Kernel) -> Plan:
    """A kernel becomes ``kernels/<core type>/<name>`` under OUT."""
    name = f"kernels/{kernel.core_type}/{kernel.name}"
    return compilation.plan(name, kernel.core_type, kernel.source, kernel.extra_include_dirs)


def plan_orchestration(compilation: Compilation, orchestration: Orchestration) -> Plan:
    """The orchestration becomes ``orchestration/<stem>`` under OUT."""
    return compilation.plan(f"orchestration/{orchestration.source.stem}", "orchestration", orchestration.source)


def declare_unit(env: Any, output: Path, plan: Plan) -> Any:
    """The compile node and the link node of a unit; returns the latter."""
    workspace = workspace_of(env)
    unit = plan.unit
    target = str(output / unit.name)
    compiled = env.Command(
        escape(f"{target}.o"),
        env.File(escape(str(plan.spliced or unit.source))),
        command(
            "[cpp->.so] compile",
            [*workspace.launcher, *_template(plan.compile_argv(workspace, "$SOURCE", "${TARGET}.tmp"))],
            show=lambda _: workspace.short(unit.source),
        ),
    )
    headers = workspace.headers.headers(str(unit.source), [str(directory) for directory in plan.extra_dirs])
    env.Depends(compiled, [env.File(escape(header)) for header in headers])
    linked = env.Command(
        escape(f"{target}.so"),
        compiled,
        command(
            "[cpp->.so] link   ",
            _template(host.link_argv(workspace.compiler, "$SOURCE", "${TARGET}.tmp")),
            show=lambda _: unit.binary,
        ),
    )
    env.Depends([compiled, linked], setting(env, "the compiler", workspace.compiler.identity))
    return linked


def _template(argv: Sequence[str]) -> list[str]:
    """``argv`` for SCons: its own two variables stay, any other dollar sign is a dollar sign."""
    return [word if word in ("$SOURCE", "${TARGET}.tmp") else escape(word) for word in argv]
