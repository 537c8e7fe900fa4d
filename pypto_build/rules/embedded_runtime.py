"""The embedded runtime as a node: built once per content, shared by every artifact and workspace of this user."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.runtime_module import module_path
from pypto_build.rules.machinery.scons_types import Environment, Node
from pypto_build.rules.machinery.steps import Step, declare_step, perform
from pypto_build.rules.machinery.workspace import Workspace, escape, workspace_of
from pypto_build.rules.options import parse_options
from pypto_build.runtime import build as runtime_build
from pypto_build.toolchain.python import own_tool

_packages_dir = cache(runtime_build.packages_dir)


def runtime_step(workspace: Workspace) -> Step:
    """Return the step that builds the module."""
    module = module_path(workspace.compiler)
    watched = workspace.watcher is not None  # else what is known to be read stands for it, for this user alone
    argv = ["--quiet", "--module", f"{module}.tmp", "--compiler", workspace.compiler.path]
    argv += ["--packages", _packages_dir()]
    action = python_tool(
        workspace,
        "pypto_build.runtime.build",
        argv,
        name=module.name,
        inputs=[] if watched else [*runtime_build.sources(), *runtime_build.headers(), workspace.compiler.path],
        shared=watched,
        assumed=not watched,
        outputs=(module.name,),
        settings={"the compiler": workspace.compiler.identity},
        keyed=False,
        private=(str(module.parent),),
    )
    # Without packages and variables of this installation, with which it has nothing to do: others that differ share it.
    bare = (*own_tool("pypto_build.runtime.build", "-E", "-S"), *argv)
    return Step(
        workspace.output_dir(module.parent),
        replace(action, argv=bare),
        "[runtime] build",
        "the embedded runtime, once",
        in_common=True,
        shown=True,
    )


def embedded_runtime(env: Environment) -> Node:
    """Return the node of the runtime's Python module."""
    extras = workspace_of(env).extras
    if "embedded runtime" not in extras:  # it reads all of the runtime's sources
        extras["embedded runtime"] = runtime_step(workspace_of(env))
    step: Step = extras["embedded runtime"]
    module = step.output_dir.path(step.action.name)
    if step.proven:
        return env.File(escape(str(module)))
    return declare_step(env, step, [])[0]


def ensure_runtime() -> Path:
    """Build the runtime's module if necessary, without SCons; return its path."""
    workspace = Workspace(Path.cwd(), parse_options({}), whole_graph=False)
    step = runtime_step(workspace)
    if not step.proven and perform(workspace, step).status:
        raise RuntimeError("the embedded runtime cannot be built")
    workspace.save()
    return step.output_dir.path(step.action.name)
