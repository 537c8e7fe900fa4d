"""The targets ``splice`` and ``pto_diff`` of the selected artifact."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from SCons.Action import Action

from pypto_build import terminal
from pypto_build.artifact import ArtifactError, resolve_jit
from pypto_build.rules.artifact import ArtifactTargets
from pypto_build.rules.completion import is_completed, write_completed
from pypto_build.rules.machinery.scons_types import Environment, Nodes
from pypto_build.rules.machinery.workspace import escape, workspace_of
from pypto_build.rules.splice import write_back
from pypto_build.toolchain.python import own_tool


def declare_splice(env: Environment, artifacts: Sequence[ArtifactTargets]) -> None:
    """Declare ``splice``: the spliced files; with ``WRITE=1`` they are copied into the artifact."""
    nodes = [node for targets in artifacts for node in targets.spliced.nodes]
    action = Action(_write, None) if workspace_of(env).options["WRITE"] else None
    env.AlwaysBuild(env.Alias("splice", nodes, action, PYPTO_SPLICED=artifacts))


def _write(target: Nodes, source: Nodes, env: Environment) -> None:
    """Write spliced files as an action. It is not a closure, because SCons would include all captured objects in the
    action's signature.
    """
    workspace = workspace_of(env)
    for targets in env["PYPTO_SPLICED"]:
        artifact = targets.artifact
        root = workspace.outputs[targets.output]
        if is_completed(artifact):
            written = write_completed(artifact, root)
        else:
            written = write_back(targets.output, targets.splices)
        for path, kept in written:
            note = f", the previous one is {kept.name}" if kept else ""
            terminal.say(f"[pto->cpp] wrote {workspace.short(path)}{note}")


def declare_pto_diff(env: Environment, root: Path, *places: Path) -> None:
    """Declare ``pto_diff``: compare the modules with those of ``OTHER=``."""
    other = workspace_of(env).options["OTHER"]
    if not other:
        raise ArtifactError("OTHER=", "'scons pto_diff' compares two artifacts", "name the second artifact with OTHER=")
    words = own_tool("pypto_build.pto.diff")
    words += [str(path) for path in (root, resolve_jit(other, *places, option="OTHER"))]
    compare = Action([[escape(word) for word in words]], None, exitstatfunc=lambda status: 0 if status == 1 else status)
    env.AlwaysBuild(env.Alias("pto_diff", [], compare, **env["PYPTO_WITHOUT_SHELL"]))
