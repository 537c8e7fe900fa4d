"""The targets ``splice`` and ``pto_diff`` of the selected artifact."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from SCons.Action import Action

from pypto_build.artifact import ArtifactError, resolve_jit
from pypto_build.rules.artifact import ArtifactTargets
from pypto_build.rules.splice import write_back
from pypto_build.rules.workspace import escape, workspace_of


def declare_splice(env: Any, artifacts: Sequence[ArtifactTargets]) -> None:
    """``splice``: the spliced files; with ``WRITE=1`` they go into the artifact."""
    workspace = workspace_of(env)
    nodes = [node for targets in artifacts for node in targets.spliced]

    def write(target: Any, source: Any, env: Any) -> None:
        for targets in artifacts:
            for path in write_back(targets.output, targets.splices):
                print(f"[pto->cpp] wrote {workspace.short(path)}, the previous one is {path.name}.bak")

    alias = env.Alias("splice", nodes, [Action(write, None)] if workspace.options["WRITE"] else [])
    env.AlwaysBuild(alias)


def declare_pto_diff(env: Any, root: Path, *places: Path) -> None:
    """``pto_diff``: compare the modules with those of ``OTHER=``."""
    other = workspace_of(env).options["OTHER"]
    if not other:
        raise ArtifactError("OTHER=", "'scons pto_diff' compares two artifacts", "name the second with OTHER=")
    words = [sys.executable, "-m", "pypto_build.pto.diff"]
    words += [str(path / "ptoas") for path in (root, resolve_jit(other, *places))]
    compare = Action([[escape(word) for word in words]], None, exitstatfunc=lambda status: 0 if status == 1 else status)
    env.AlwaysBuild(env.Alias("pto_diff", [], compare))
