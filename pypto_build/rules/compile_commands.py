"""``compile_commands.json`` for editors: the compile command of every unit, kept in BUILD_DIR."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact.atomic import write_bytes
from pypto_build.artifact.files import decode_json, read_bytes
from pypto_build.rules.artifact import ArtifactTargets
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.rules.units import Plan


def update_compile_commands(workspace: Workspace, targets: ArtifactTargets) -> None:
    """Replace the entries of this artifact and platform; those of others stay. Editors find the file by its place."""
    workspace.build_dir.mkdir(parents=True, exist_ok=True)
    directory = os.open(workspace.build_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)  # others may build other artifacts now
        _update(workspace, targets, workspace.build_dir / "compile_commands.json")
    finally:
        os.close(directory)


def _update(workspace: Workspace, targets: ArtifactTargets, path: Path) -> None:
    try:
        text = read_bytes(path)
        known: list[dict[str, Any]] = [entry for entry in decode_json(text, list[Any]) if isinstance(entry, dict)]
    except (OSError, ValueError):
        text, known = b"", []
    prefix = str(targets.binaries_dir) + os.sep
    entries = [entry for entry in known if not str(entry.get("output", "")).startswith(prefix)]
    # A spliced file first: it is what the binary was compiled from, the kernel's own is what editors have open.
    compiled = [(plan, source) for plan in targets.plans for source in (plan.spliced, plan.unit.source) if source]
    entries += [_entry(workspace, plan, source, prefix) for plan, source in compiled]
    entries.sort(key=lambda entry: str(entry.get("output")))
    wanted = msgspec.json.format(msgspec.json.encode(entries), indent=1) + b"\n"
    if wanted != text:
        write_bytes(path, wanted)


def _entry(workspace: Workspace, plan: Plan, source: Path, prefix: str) -> dict[str, Any]:
    output = f"{prefix}{plan.unit.name}.o"
    arguments = plan.compile_argv(str(source), output)
    return {"directory": str(workspace.top), "file": str(source), "output": output, "arguments": arguments}
