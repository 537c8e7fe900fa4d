"""``GoldenData``: inputs and goldens for replays, computed by a script or by the reference of a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from SCons.Action import Action

from pypto_build.rules.machinery.actions import run_with_errors
from pypto_build.rules.machinery.attributes import Attribute, Kind, Rule, RuleError, path_attribute
from pypto_build.rules.machinery.environment import SHOWN
from pypto_build.rules.machinery.inputs import directory_to_make, leave_to_cleaning, path_of
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.steps import Step, declare_step, made_by_us
from pypto_build.rules.machinery.workspace import workspace_of
from pypto_build.rules.targets import TARGETS

_TREE = "snapshot"
#: Below BUILD_DIR, where a platform has its artifacts.
DATA = "data"

GOLDEN_DATA = Rule(
    "GoldenData",
    "Makes a directory with in/ and out/, which `data=` of a test takes; again only if what it is made from changed.",
    (
        Attribute("name", (str,), "the name of the target", required=True),
        path_attribute("script", Kind.FILE, "a Python script that is run as `SCRIPT --output DIR --seed N ARGS...`"),
        path_attribute("program", Kind.DIRECTORY, "in its place an artifact, whose golden.py has the reference"),
        Attribute("seed", (int,), "the seed of made-up inputs (default: SEED=)"),
        Attribute("args", (list, tuple), "more words for the script"),
        path_attribute("deps", Kind.FILES, "files that the script reads, where something makes them"),
    ),
)


def declare_golden_data(env: Environment, **attributes: Any) -> Nodes:
    """Implement the rule; return the node of the directory."""
    values = GOLDEN_DATA.check(attributes, env)
    workspace, name = workspace_of(env), values["name"]
    script, program = values["script"], values["program"]
    if (script is None) == (program is None):
        raise RuleError(f"GoldenData: {name} has both or neither of script= and program=; give exactly one of them")
    output = workspace.build_dir / DATA / name
    if output in workspace.output_dirs:
        raise RuleError(f"GoldenData: name={name!r}: two rules have this name; give each rule its own name")
    made_from = path_of(script) if script else path_of(program) / "golden.py"
    output_dir = workspace.open_output(output, made_from)
    seed = workspace.options["SEED"] if values["seed"] is None else values["seed"]
    words = ["--script" if script else "--golden", str(made_from), "--output", str(output / _TREE), "--seed", str(seed)]
    action = python_tool(
        workspace,
        "pypto_build.compiler.data",
        [*words, *(["--", *map(str, values["args"])] if values["args"] else [])],
        name=_TREE,
        inputs=[made_from],
        tree=_TREE,
        runs_programs=True,
        variables=SHOWN,
    )
    step = Step(output_dir, action, "[data] make", name, spawn=run_with_errors, shown=True)
    sources = [script or program, *(values["deps"] or ())]
    made = declare_step(env, step, sources, outputs=(".made",))
    directory = directory_to_make(env, output / _TREE, output_dir.file_digests)
    nodes = made_by_us(env, env.Command([directory], made, Action(_create, None)))
    leave_to_cleaning(nodes)
    if name not in TARGETS:
        env.Alias(name, nodes)
    return nodes


def _create(target: Nodes, source: Nodes, env: Environment) -> None:
    """Create the directory before SCons creates a file in it."""
    Path(target[0].get_abspath()).mkdir(parents=True, exist_ok=True)
