"""``PtoProgram`` and ``scons compile PROGRAM=p.py``: a program in Python to an artifact, its golden included."""

from __future__ import annotations

import hashlib
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from pypto_build import terminal
from pypto_build.artifact.compiled_files import COMPILED_FILES_NAME, read_compiled_files
from pypto_build.facts.platforms import PLATFORMS, Platform
from pypto_build.proof import Place
from pypto_build.rules.machinery.actions import run_streaming
from pypto_build.rules.machinery.attributes import Attribute, Rule, RuleError
from pypto_build.rules.machinery.environment import SHOWN
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.steps import Step, declare_step
from pypto_build.rules.machinery.workspace import Workspace, escape, workspace_of
from pypto_build.toolchain.ptoas import find_ptoas

PROGRAM = Rule(
    "PtoProgram",
    "Compiles a program into the artifact `_jit_<name>`; files that stay the same are not written.",
    (
        Attribute("name", (str,), "the program's name; its artifact is `_jit_<name>` in BUILD_OUTPUT", required=True),
        Attribute("source", (str, Path), "the program's Python file", required=True),
        Attribute(
            "variables",
            (list, tuple),
            "names of further environment variables that the program sees (default: VARIABLES=)",
        ),
        Attribute("platform", (str,), "what it is compiled for (default: PLATFORM=)", choices=tuple(PLATFORMS)),
    ),
)


def declare_program(env: Environment, **given: Any) -> Nodes:
    """Implements the rule; returns the alias of the program."""
    values = PROGRAM.check(given)
    workspace = workspace_of(env)
    source = Path(os.path.abspath(workspace.top / values["source"]))
    if not source.is_file():
        raise RuleError(f"{values['source']}: no such file; PROGRAM= and source name a program in Python")
    platform = workspace.platform(values["platform"])
    artifact = Path(os.path.abspath(workspace.top / workspace.options.build_output)) / f"_jit_{values['name']}"
    output = workspace.output("programs." + values["name"], source.parent, platform)
    place = workspace.place(output)
    variables = (*SHOWN, *(values["variables"] or filter(None, workspace.options["VARIABLES"].split(","))))
    settings = {"the assembler": _assembler(workspace, platform)}
    module = "pypto_build.compiler.pypto" if workspace.options["COMPILER"] == "pypto" else "pypto_build.compiler"
    action = python_tool(
        workspace,
        module,
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
        place,
        action,
        "[py->pto] compile",
        workspace.short(source),
        spawn=run_streaming,
        shown=True,
        lead=partial(_name_assembler, settings["the assembler"], workspace),
        again=not _is_there(artifact),
        otherwise="a file of the artifact is missing",
    )
    node = declare_step(env, step, [env.File(escape(str(source)))], outputs=("artifact",))
    if workspace.options["COMPILER"] == "pypto":
        return env.Alias(values["name"], node)
    return env.Alias(values["name"], [*node, *_declare_golden(env, workspace, place, artifact, node, variables)])


def _declare_golden(
    env: Environment,
    workspace: Workspace,
    place: Place,
    artifact: Path,
    compiled: Nodes,
    variables: tuple[str, ...],
) -> Nodes:
    """The node that computes the snapshot from the program's reference: again only if that or the data changed."""
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
        place,
        action,
        "[golden] make",
        workspace.short(artifact / "data"),
        spawn=run_streaming,
        again=not _is_computed(artifact),
        otherwise="data is not as it was computed",
    )
    return declare_step(env, step, compiled, outputs=("golden",))


def _is_computed(artifact: Path) -> bool:
    """Whether the data of every reference are those that were computed, by the records kept beside them."""
    document = read_compiled_files(artifact / COMPILED_FILES_NAME)
    if document is None:
        return False
    try:
        for golden in document.goldens:
            root = (artifact / golden).parent
            for name, digest in json.loads((root / "data/golden.json").read_bytes())["files"].items():
                if hashlib.sha256((root / name).read_bytes()).hexdigest() != digest:
                    return False
    except (OSError, ValueError, KeyError, AttributeError):
        return False
    return True


def _argv(workspace: Workspace, source: Path, artifact: Path, platform: str) -> list[str]:
    options = workspace.options
    by_pypto = options["COMPILER"] == "pypto"
    words = [str(source), "--output", str(artifact), "--platform", platform, *([] if by_pypto else ["--no-golden"])]
    for name in ("PYTHON",) if by_pypto else ("VINTAGE", "PTOAS", "SEED"):
        words += [f"--{name.lower()}", str(options[name])] if options[name] else []
    words += ["--skip-ptoas"] if options["SKIP_PTOAS"] and not by_pypto else []
    return [*words, *(["--dump-passes"] if options["DUMP_PASSES"] else [])]


def _assembler(workspace: Workspace, platform: Platform) -> str:
    """What tells one assembler from another; empty for our own, which is the compiler's."""
    options = workspace.options
    if options["SKIP_PTOAS"] or options["COMPILER"] == "pypto" or (platform.simulated and not options["PTOAS"]):
        return ""
    found = find_ptoas(options["PTOAS"], os.environ)
    return found.identity if found else ""


def _name_assembler(assembler: str, workspace: Workspace, _reason: str) -> None:
    """Say who assembles what is compiled, where anything is."""
    if not workspace.options["SKIP_PTOAS"] and workspace.options["COMPILER"] != "pypto":
        terminal.say(f"[pto->cpp] assembler: {assembler or 'our own; PTOAS= names another'}")


def _is_there(artifact: Path) -> bool:
    document = read_compiled_files(artifact / COMPILED_FILES_NAME)
    return document is not None and all((artifact / name).exists() for name in document.files)
