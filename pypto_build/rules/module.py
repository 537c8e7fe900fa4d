"""``PtoModule``: the C++ of a kernel, made of its ``.pto`` module and the wrapper that the body goes into."""

from __future__ import annotations

import os
from typing import Any

from pypto_build.artifact.files import read_source
from pypto_build.rules.machinery.attributes import PLATFORM, Attribute, Kind, Rule, RuleError, path_attribute
from pypto_build.rules.machinery.inputs import path_of
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.steps import Step, declare_step
from pypto_build.rules.machinery.workspace import workspace_of
from pypto_build.rules.single import LOOSE
from pypto_build.rules.splice import SPLICED, Assembler
from pypto_build.rules.targets import TARGETS
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.ptoas import find_ptoas

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


def declare_module(env: Environment, **given: Any) -> Nodes:
    """Implements the rule; returns the node of the C++ file."""
    values = MODULE.check(given, env)
    workspace, name = workspace_of(env), values["name"]
    platform = workspace.platform(values["platform"])
    ptoas = find_ptoas(workspace.options["PTOAS"], os.environ)
    if ptoas is None and not platform.simulated:
        raise ToolchainError(f"PtoModule: {name}: {platform.name} needs ptoas; set PTOAS_ROOT or PTOAS=")
    place = workspace.place(workspace.output(LOOSE, workspace.top, platform))
    given_files = {key: values[key] for key in ("source", "kernel", "orchestration") if values[key] is not None}
    paths = {key: path_of(node) for key, node in given_files.items()}
    source, kernel = paths["source"], paths["kernel"]
    if ptoas and not source.is_file():
        raise RuleError(
            f"PtoModule: {name}: ptoas is called as a module demands, and {source} is not there yet; PTOAS=own"
        )
    body, spliced = f"ptoas/{name}.cpp", f"{SPLICED}{name}.cpp"
    if name in workspace.extras.setdefault("modules", set()):
        raise RuleError(f"PtoModule: name={name!r}: two rules have this name; give each its own")
    workspace.extras["modules"].add(name)
    assemble = Step(
        place,
        Assembler(platform, ptoas).action(workspace, place, source, read_source(source) if ptoas else "", body),
        "[pto->cpp] regenerating from",
        workspace.short(source),
        shown=True,
    )
    argv = [str(place.path(body)), "--module", str(source)]
    argv += ["--orchestration", str(paths["orchestration"])] if "orchestration" in paths else []
    argv += ["--into", str(values["func_id"]), str(kernel), f"{place.path(spliced)}.tmp"]
    inputs = [place.path(body), *paths.values()]
    action = python_tool(
        workspace, "pypto_build.compiler.splice_files", argv, name=spliced, inputs=inputs, outputs=(spliced,)
    )
    splice = Step(place, action, "[pto->cpp]   spliced ->", name)
    assembled = declare_step(env, assemble, [values["source"]])
    nodes = declare_step(env, splice, [*assembled, *given_files.values()])
    if name not in TARGETS:
        env.Alias(name, nodes)
    return nodes
