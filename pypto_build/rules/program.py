"""``PtoProgram`` and ``scons compile PROGRAM=p.py``: a program in Python to an artifact, its golden included."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from SCons.Action import Action

from pypto_build.artifact.compiled_files import COMPILED_FILES_NAME, read_compiled_files
from pypto_build.rules.actions import command, run_streaming
from pypto_build.rules.attributes import Attribute, Rule, RuleError
from pypto_build.rules.reason import setting
from pypto_build.rules.sources import tool_digest
from pypto_build.rules.workspace import Workspace, escape, workspace_of
from pypto_build.toolchain import PLATFORMS, Platform
from pypto_build.toolchain.ptoas import find_ptoas
from pypto_build.toolchain.python import own_tool

PROGRAM = Rule(
    "PtoProgram",
    "Compiles a program into the artifact `_jit_<name>`; files that stay the same are not written.",
    (
        Attribute("name", (str,), "the program's name; its artifact is `_jit_<name>` in BUILD_OUTPUT", required=True),
        Attribute("source", (str, Path), "the program's Python file", required=True),
        Attribute("platform", (str,), "what it is compiled for (default: PLATFORM=)", choices=tuple(PLATFORMS)),
    ),
)


def declare_program(env: Any, **given: Any) -> Any:
    """Implements the rule; returns the alias of the program."""
    values = PROGRAM.check(given)
    workspace = workspace_of(env)
    source = Path(os.path.abspath(workspace.top / values["source"]))
    if not source.is_file():
        raise RuleError(f"{values['source']}: no such file; PROGRAM= and source name a program in Python")
    platform = workspace.platform(values["platform"])
    artifact = Path(os.path.abspath(workspace.top / workspace.options.build_output)) / f"_jit_{values['name']}"
    output = workspace.output("programs." + values["name"], source.parent, platform)
    stamp = output / COMPILED_FILES_NAME
    node = env.Command(
        escape(str(stamp)),
        [env.File(escape(str(path))) for path in _sources(stamp, source)],
        [
            command(
                "[py->pto] compile",
                _argv(workspace, source, artifact, platform.name),
                temporary=False,
                show=_shown(workspace),
            ),
            Action(_keep_list, None),
        ],
        SPAWN=run_streaming,
        PYPTO_LIST=(artifact / COMPILED_FILES_NAME, stamp),
    )
    env.Depends(node, setting(env, "the compiler", tool_digest("compiler") + tool_digest("pto")))
    env.Depends(node, setting(env, "the assembler", _assembler(workspace, platform)))
    if not _is_there(artifact):
        env.AlwaysBuild(node)
    nodes = [node] if workspace.options["COMPILER"] == "pypto" else [node, _declare_golden(env, artifact, stamp)]
    return env.Alias(values["name"], nodes)


def _declare_golden(env: Any, artifact: Path, stamp: Path) -> Any:
    """The node that computes the snapshot from the program's reference: again only if that or the data changed."""
    words = [*own_tool("pypto_build.compiler.golden"), str(artifact), "--if-any"]
    made = str(stamp.with_name("golden.json"))
    node = env.Command(
        escape(made),
        escape(str(stamp)),
        [
            command(
                "[golden] make",
                [escape(word) for word in words],
                temporary=False,
                show=lambda _: workspace_of(env).short(artifact / "data"),
                otherwise="data is not as it was computed",
            ),
            Action(_keep_golden, None),
        ],
        SPAWN=run_streaming,
    )
    if Path(made).exists() and not _is_computed(artifact):
        env.AlwaysBuild(node)
    return node


def _keep_golden(target: Any, source: Any, env: Any) -> None:
    """What the snapshot was made from; its data have records of their own."""
    Path(target[0].get_abspath()).write_bytes(Path(source[0].get_abspath()).read_bytes())


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
    where = [str(source), "--output", str(artifact), "--platform", platform]
    if options["COMPILER"] == "pypto":
        words = [*own_tool("pypto_build.compiler.pypto"), *where]
        words += ["--python", options["PYTHON"]] if options["PYTHON"] else []
        return [escape(word) for word in (*words, *(["--dump-passes"] if options["DUMP_PASSES"] else []))]
    words = [*own_tool("pypto_build.compiler"), *where]
    words += ["--no-golden"]
    words += ["--vintage", options["VINTAGE"]] if options["VINTAGE"] else []
    words += ["--ptoas", options["PTOAS"]] if options["PTOAS"] else []
    words += ["--seed", str(options["SEED"])] if options["SEED"] else []
    words += ["--skip-ptoas"] if options["SKIP_PTOAS"] else []
    words += ["--dump-passes"] if options["DUMP_PASSES"] else []
    return [escape(word) for word in words]


def _assembler(workspace: Workspace, platform: Platform) -> str:
    """What tells one assembler from another; empty for our own, which is the compiler's."""
    options = workspace.options
    if options["SKIP_PTOAS"] or options["COMPILER"] == "pypto" or (platform.simulated and not options["PTOAS"]):
        return ""
    found = find_ptoas(options["PTOAS"], os.environ)
    return found.identity if found else ""


def _shown(workspace: Workspace) -> Any:
    return lambda node: workspace.short(str(node))


def _keep_list(target: Any, source: Any, env: Any) -> None:
    made, stamp = env["PYPTO_LIST"]
    shutil.copyfile(made, stamp)


def _sources(stamp: Path, source: Path) -> list[Path]:
    """The program and the Python files it imported when it was last compiled."""
    document = read_compiled_files(stamp)
    listed = document.sources if document else ()
    imported = [path for name in listed if (path := source.parent / name) != source and path.is_file()]
    return [source, *imported]


def _is_there(artifact: Path) -> bool:
    document = read_compiled_files(artifact / COMPILED_FILES_NAME)
    return document is not None and all((artifact / name).exists() for name in document.files)
