"""The embedded runtime as a node: built once per content, shared by every artifact and workspace of this user."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

from pypto_build.rules.actions import command
from pypto_build.rules.workspace import escape, workspace_of
from pypto_build.runtime import build as runtime_build
from pypto_build.toolchain.cache import cache_dir
from pypto_build.toolchain.host import HostCompiler
from pypto_build.toolchain.python import own_tool


def module_path(compiler: HostCompiler) -> Path:
    """Where the runtime's Python module lies once it is built.

    The directory is named after a digest of its sources, the compiler and the Python it is for, so a module that is
    there is the right one and needs no check.
    """
    digest = hashlib.sha256(f"{compiler.identity}\0{sys.version}".encode())
    for path in (*runtime_build.sources(), *runtime_build.headers(), Path(runtime_build.__file__)):
        digest.update(f"{path.name}\0".encode() + path.read_bytes())
    return cache_dir() / "runtime" / digest.hexdigest()[:32] / runtime_build.module_filename()


def embedded_runtime(env: Any) -> Any:
    """The node of the runtime's Python module."""
    workspace = workspace_of(env)
    module = module_path(workspace.compiler)
    if module.exists():
        return env.File(escape(str(module)))
    argv = [
        *own_tool("pypto_build.runtime.build"),
        "--quiet",
        str(module.parent),
        "--compiler",
        workspace.compiler.path,
    ]
    build = command(
        "[runtime] build", [escape(word) for word in argv], temporary=False, show=lambda _: "the embedded runtime, once"
    )
    node = env.Command(escape(str(module)), [], build)
    env.Precious(node)
    return node[0]
