"""``PtoProgram`` and ``scons compile PROGRAM=p.py``: compile a program in Python to an artifact, including its
golden.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from SCons.Action import Action

from pypto_build import terminal
from pypto_build.artifact import MANIFEST_NAME
from pypto_build.artifact.compiled_files import (
    COMPILED_FILES_NAME,
    are_as_recorded,
    read_compiled_files,
    read_computed_data,
)
from pypto_build.facts.platforms import PLATFORMS, Platform
from pypto_build.proof import OutputDir
from pypto_build.rules.machinery.actions import run_with_errors
from pypto_build.rules.machinery.attributes import Attribute, Kind, Rule, RuleError, path_attribute
from pypto_build.rules.machinery.environment import SHOWN
from pypto_build.rules.machinery.inputs import directory_to_make, leave_to_cleaning, path_of, stands_for
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.steps import Step, declare_step, made_by_us
from pypto_build.rules.machinery.workspace import Workspace, escape, workspace_of
from pypto_build.rules.targets import TARGETS
from pypto_build.toolchain.ptoas import find_ptoas

PROGRAM = Rule(
    "PtoProgram",
    "Compiles a program into the artifact `_jit_<name>`; files that stay the same are not written.",
    (
        Attribute("name", (str,), "the program's name; its artifact is `_jit_<name>` in BUILD_OUTPUT", required=True),
        path_attribute("source", Kind.FILE, "the program's Python file", required=True),
        path_attribute("deps", Kind.FILES, "files that it reads or imports, where something makes them"),
        Attribute(
            "variables",
            (list, tuple),
            "names of further environment variables that the program sees (default: VARIABLES=)",
        ),
        Attribute("platform", (str,), "what it is compiled for (default: PLATFORM=)", choices=tuple(PLATFORMS)),
    ),
)


def declare_program(env: Environment, **attributes: Any) -> Nodes:
    """Implement the rule; return the nodes of the artifact's directory and of its manifest."""
    values = PROGRAM.check(attributes, env)
    workspace, name = workspace_of(env), values["name"]
    source = path_of(values["source"])
    platform = workspace.platform(values["platform"])
    artifact = Path(os.path.abspath(workspace.top / workspace.options.build_output)) / f"_jit_{name}"
    programs: dict[Path, _Program] = workspace.extras.setdefault("programs", {})
    program = _Program(source, platform.name)
    declared = programs.setdefault(artifact, program)
    if (declared.source, declared.platform) != (source, platform.name):
        first, second = (f"{workspace.short_of_top(one.source)} for {one.platform}" for one in (declared, program))
        raise RuleError(
            f"PtoProgram: two programs make the artifact {artifact.name}: {first} and {second}; give "
            "one of them another name"
        )
    if not declared.nodes:
        declared.nodes = _declare(env, workspace, name, values, artifact, platform)
    if name not in TARGETS:
        env.Alias(name, declared.nodes)
    return declared.nodes


@dataclass
class _Program:
    """A declared program: its file, its platform and options, and the nodes of its artifact."""

    source: Path
    platform: str
    nodes: Nodes = ()


def _declare(
    env: Environment, workspace: Workspace, name: str, values: Mapping[str, Any], artifact: Path, platform: Platform
) -> Nodes:
    """Return the nodes of the artifact: its directory is complete when it is compiled and has its data."""
    source = path_of(values["source"])
    output = workspace.output_path(f"programs.{name}", platform)
    output_dir = workspace.output_dirs.get(output) or workspace.open_output(output, source)
    settings = {"the assembler": _assembler(workspace, platform)}
    by_pypto = workspace.options["COMPILER"] == "pypto"
    variables = (*SHOWN, *(values["variables"] or filter(None, workspace.options["VARIABLES"].split(","))))
    action = python_tool(
        workspace,
        "pypto_build.compiler.pypto" if by_pypto else "pypto_build.compiler",
        _argv(workspace, source, artifact, platform.name),
        name="artifact",
        inputs=[source],
        settings=settings,
        private=(str(artifact),),
        shared=False,
        runs_programs=True,
        variables=variables,
    )
    step = Step(
        output_dir,
        action,
        "[py->pto] compile",
        workspace.short_of_top(source),
        spawn=run_with_errors,
        shown=True,
        lead=partial(_name_assembler, settings["the assembler"], workspace),
        repeated=not _is_there(artifact),
        otherwise="a file of the artifact is missing",
    )
    made = declare_step(env, step, [values["source"], *(values["deps"] or ())], outputs=("artifact",))
    made = [*made, *(() if by_pypto else _declare_golden(env, workspace, output_dir, artifact, made, variables))]
    # SCons lets a directory depend on what it knows to be in it: on the manifest too.
    manifest = made_by_us(env, env.Command(escape(str(artifact / MANIFEST_NAME)), made, Action(_create, None)))
    directory = directory_to_make(env, artifact, output_dir.file_digests)
    nodes = [*made_by_us(env, env.Command([directory], manifest, Action(_create, None))), *manifest]
    leave_to_cleaning(nodes)
    workspace.generated[output] = directory
    stands_for(nodes, directory)
    return nodes


def _create(target: Nodes, source: Nodes, env: Environment) -> None:
    """Do nothing: SCons has already created the directory, and earlier steps write the artifact."""


def _declare_golden(
    env: Environment,
    workspace: Workspace,
    output_dir: OutputDir,
    artifact: Path,
    compiled: Nodes,
    variables: tuple[str, ...],
) -> Nodes:
    """Declare the node that computes the snapshot from the program's reference, when that or the data changed."""
    action = python_tool(
        workspace,
        "pypto_build.compiler.golden",
        [str(artifact), "--if-any"],
        name="golden",
        private=tuple(map(str, (artifact / "data", *artifact.glob("next_levels/*/data")))),
        shared=False,
        runs_programs=True,
        variables=variables,
    )
    step = Step(
        output_dir,
        action,
        "[golden] make",
        workspace.short(artifact / "data"),
        spawn=run_with_errors,
        repeated=not _is_computed(artifact),
        otherwise="data is not as it was computed",
    )
    return declare_step(env, step, compiled, outputs=("golden",))


def _is_computed(artifact: Path) -> bool:
    """Return True if the data of every reference matches its record of computed data."""
    document = read_compiled_files(artifact / COMPILED_FILES_NAME)
    if document is None:
        return False
    roots = [artifact / reference for reference in document.references]
    data = [(root, read_computed_data(root).files) for root in roots]
    return all(files and are_as_recorded(root, files) for root, files in data)


def _argv(workspace: Workspace, source: Path, artifact: Path, platform: str) -> list[str]:
    options = workspace.options
    by_pypto = options["COMPILER"] == "pypto"
    words = [str(source), "--output", str(artifact), "--platform", platform, *([] if by_pypto else ["--no-golden"])]
    for name in ("PYTHON",) if by_pypto else ("VINTAGE", "PTOAS", "SEED"):
        words += [f"--{name.lower()}", str(options[name])] if options[name] else []
    words += ["--skip-ptoas"] if options["SKIP_PTOAS"] and not by_pypto else []
    return [*words, *(["--dump-passes"] if options["DUMP_PASSES"] else [])]


def _assembler(workspace: Workspace, platform: Platform) -> str:
    """Return the identity of the assembler; empty for our own, which belongs to the compiler."""
    options = workspace.options
    if options["SKIP_PTOAS"] or options["COMPILER"] == "pypto" or (platform.simulated and not options["PTOAS"]):
        return ""
    ptoas = find_ptoas(options["PTOAS"], os.environ)
    return ptoas.identity if ptoas else ""


def _name_assembler(assembler: str, workspace: Workspace, _reason: str) -> None:
    """Print the assembler's name if anything is compiled."""
    if not workspace.options["SKIP_PTOAS"] and workspace.options["COMPILER"] != "pypto":
        terminal.say(f"[pto->cpp] assembler: {assembler or 'our own; PTOAS= names another'}")


def _is_there(artifact: Path) -> bool:
    document = read_compiled_files(artifact / COMPILED_FILES_NAME)
    return document is not None and all((artifact / name).exists() for name in document.files)
