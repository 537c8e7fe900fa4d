"""``PtoModule``: builds the C++ of a kernel from its ``.pto`` module and its wrapper."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from SCons.Script import GetOption

from pypto_build.artifact import CORE_TYPES, Kernel, Orchestration
from pypto_build.artifact.files import read_source
from pypto_build.facts.platforms import TENSORMAP
from pypto_build.rules.compile_commands import update_commands
from pypto_build.rules.machinery.attributes import PLATFORM, Attribute, Kind, Rule, RuleError, path_attribute
from pypto_build.rules.machinery.deferred import QUERY
from pypto_build.rules.machinery.inputs import path_of, searched
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.recipes import recipe_of
from pypto_build.rules.machinery.scons_types import Environment, Node, Nodes
from pypto_build.rules.machinery.steps import Step, declare_step
from pypto_build.rules.machinery.workspace import Workspace, escape, workspace_of
from pypto_build.rules.splice import SPLICED, Assembler
from pypto_build.rules.targets import TARGETS
from pypto_build.rules.units import Compilation, Plan, declare_unit
from pypto_build.rules.variants import USUAL
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.ptoas import find_ptoas

# ``PtoKernel`` and ``PtoOrchestration``: the units of an artifact as rules of their own.

KERNEL = Rule(
    "PtoKernel",
    "Compiles and links one kernel.",
    (
        Attribute("name", (str,), "the name of the library, and of the target that builds it", required=True),
        path_attribute("source", Kind.FILE, "the kernel's C++ file", required=True),
        Attribute("core_type", (str,), "the core it runs on", required=True, choices=CORE_TYPES),
        path_attribute("extra_include_dirs", Kind.DIRECTORIES, "directories of headers of its own"),
        PLATFORM,
    ),
)

ORCHESTRATION = Rule(
    "PtoOrchestration",
    "Compiles and links one orchestration.",
    (
        path_attribute("source", Kind.FILE, "the orchestration's C++ file", required=True),
        PLATFORM,
    ),
)

# Units that belong to no artifact are built here, below the platform.
LOOSE = "units"


def declare_kernel(env: Environment, **attributes: Any) -> Nodes:
    """Implement ``PtoKernel``; return the library's node."""
    values = KERNEL.check(attributes, env)
    workspace, name = workspace_of(env), values["name"]
    dirs = tuple(values["extra_include_dirs"] or ())
    paths = tuple(path for node in dirs for path in searched(node))
    kernel = Kernel(0, name, path_of(values["source"]), values["core_type"], extra_include_dirs=paths)
    compilation = _loose(workspace, values["platform"])
    nodes = _declare(env, compilation, compilation.kernel(kernel), values["source"], dirs)
    if name not in TARGETS:
        env.Alias(name, nodes)
    return nodes


def declare_orchestration(env: Environment, **attributes: Any) -> Nodes:
    """Implement ``PtoOrchestration``; return the library's node."""
    values = ORCHESTRATION.check(attributes, env)
    compilation = _loose(workspace_of(env), values["platform"])
    plan = compilation.orchestration(Orchestration(path_of(values["source"])))
    return _declare(env, compilation, plan, values["source"], ())


def _declare(
    env: Environment, compilation: Compilation, plan: Plan, source: Node, include_dirs: tuple[Node, ...]
) -> Nodes:
    """Return the node of a library; generated files that its source includes are built first."""
    steps = compilation.steps(plan)
    _note_command(workspace_of(env), plan, steps[0].output_dir.directory)
    node = env.File(escape(str(steps[-1].output_dir.path(steps[-1].action.outputs[0]))))
    return [node if node.has_builder() else declare_unit(env, steps, source, include_dirs)]


def _note_command(workspace: Workspace, plan: Plan, directory: Path) -> None:
    """Record the compile command of a unit for editors, after all rules have been called."""
    plans: dict[Path, list[Plan]] = workspace.extras.setdefault("plans of units", {})
    if not (plans or GetOption("clean") or GetOption("no_exec") or QUERY in workspace.extras):
        workspace.at_end.append(partial(_update_commands, workspace, plans))
    plans.setdefault(directory, []).append(plan)


def _update_commands(workspace: Workspace, plans: Mapping[Path, Sequence[Plan]]) -> None:
    for directory, units in plans.items():
        update_commands(workspace, units, directory)


def _loose(workspace: Workspace, platform_name: str | None) -> Compilation:
    platform = workspace.platform(platform_name)
    output_dir = workspace.output_dir(workspace.output(LOOSE, workspace.top, platform))
    recipe = recipe_of(workspace, platform, USUAL.directory, TENSORMAP)
    return Compilation(workspace, recipe, output_dir, USUAL.directory, workspace.top)


MODULE = Rule(
    "PtoModule",
    "Assembles a `.pto` module, and splices the body into a kernel's wrapper; the C++ is a source for PtoKernel.",
    (
        Attribute("name", (str,), "the name of the C++ file, and of the target that makes it", required=True),
        path_attribute("source", Kind.FILE, "the .pto module", required=True),
        path_attribute("kernel", Kind.FILE, "the kernel's C++ file, whose body is replaced", required=True),
        path_attribute("orchestration", Kind.FILE, "the C++ file that submits the kernel, where arguments change"),
        Attribute("func_id", (int,), "the kernel's number in the orchestration", default=0),
        PLATFORM,
    ),
)


def declare_module(env: Environment, **attributes: Any) -> Nodes:
    """Implement the rule; return the node of the C++ file."""
    values = MODULE.check(attributes, env)
    workspace, name = workspace_of(env), values["name"]
    platform = workspace.platform(values["platform"])
    ptoas = find_ptoas(workspace.options["PTOAS"], os.environ)
    if ptoas is None and not platform.simulated:
        raise ToolchainError(f"PtoModule: {name}: {platform.name} needs ptoas; set PTOAS_ROOT or PTOAS=")
    output_dir = workspace.output_dir(workspace.output(LOOSE, workspace.top, platform))
    given_files = {key: values[key] for key in ("source", "kernel", "orchestration") if values[key] is not None}
    paths = {key: path_of(node) for key, node in given_files.items()}
    source, kernel = paths["source"], paths["kernel"]
    if ptoas and not source.is_file():
        raise RuleError(
            f"PtoModule: {name}: {source} must exist before ptoas can be called; build it first, or use PTOAS=own"
        )
    body, spliced = f"ptoas/{name}.cpp", f"{SPLICED}{name}.cpp"
    if name in workspace.extras.setdefault("modules", set()):
        raise RuleError(f"PtoModule: name={name!r}: two rules have this name; give each rule its own name")
    workspace.extras["modules"].add(name)
    assemble = Step(
        output_dir,
        Assembler(platform, ptoas).action(workspace, output_dir, source, read_source(source) if ptoas else "", body),
        "[pto->cpp] regenerating from",
        workspace.short(source),
        shown=True,
    )
    argv = [str(output_dir.path(body)), "--module", str(source)]
    argv += ["--orchestration", str(paths["orchestration"])] if "orchestration" in paths else []
    argv += ["--into", str(values["func_id"]), str(kernel), f"{output_dir.path(spliced)}.tmp"]
    inputs = [output_dir.path(body), *paths.values()]
    action = python_tool(
        workspace, "pypto_build.compiler.splice_files", argv, name=spliced, inputs=inputs, outputs=(spliced,)
    )
    splice = Step(output_dir, action, "[pto->cpp]   spliced ->", name)
    assembled = declare_step(env, assemble, [values["source"]])
    nodes = declare_step(env, splice, [*assembled, *given_files.values()])
    if name not in TARGETS:
        env.Alias(name, nodes)
    return nodes
