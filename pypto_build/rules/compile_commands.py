"""``compile_commands.json`` for editors: the compile command of every unit, kept in BUILD_DIR."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact.files import decode_json, read_bytes, write_bytes
from pypto_build.proof.digests import changed_since
from pypto_build.proof.looking import Identity, identity
from pypto_build.rules.artifact import ArtifactTargets
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.rules.units import Plan

# Key in the workspace's extras, by a directory of binaries: the file that was right, and its plans.
_FOUND = "compile commands of {}"


def update_compile_commands(workspace: Workspace, targets: ArtifactTargets) -> None:
    """Replace the entries of this artifact and platform; those of others stay. Editors find the file by its path."""
    update_commands(workspace, targets.plans, targets.binaries_dir)


def update_commands(workspace: Workspace, plans: Sequence[Plan], binaries: Path) -> None:
    """Replace the entries of all units in the directory of ``binaries`` by those of ``plans``."""
    path = _path(workspace)
    if workspace.extras.get(_FOUND.format(binaries)) == (_identity(path), plans):
        return
    workspace.build_dir.mkdir(parents=True, exist_ok=True)
    directory = os.open(workspace.build_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)  # others may build other artifacts now
        text, updated = _texts(workspace, plans, binaries)
        if updated != text:
            write_bytes(path, updated)
    finally:
        os.close(directory)


def precheck_commands(workspace: Workspace, plans: Sequence[Plan], binaries: Path) -> None:
    """Compare the entries in advance, for a fork of this process; return True if the file is up to date."""
    path, started = _path(workspace), time.time_ns()
    seen = _identity(path)
    text, updated = _texts(workspace, plans, binaries)
    settled = seen is not None and not changed_since(seen, started)
    workspace.extras[_FOUND.format(binaries)] = (seen, tuple(plans)) if text == updated and settled else None


def _path(workspace: Workspace) -> Path:
    return workspace.build_dir / "compile_commands.json"


def _identity(path: Path) -> Identity | None:
    try:
        return identity(os.stat(path))
    except OSError:
        return None


def _texts(workspace: Workspace, plans: Sequence[Plan], binaries: Path) -> tuple[bytes, bytes]:
    """Return the current text of the file, and its new text."""
    try:
        text = read_bytes(_path(workspace))
        recorded: list[dict[str, Any]] = [entry for entry in decode_json(text, list[Any]) if isinstance(entry, dict)]
    except (OSError, ValueError):
        text, recorded = b"", []
    prefix = str(binaries) + os.sep
    entries = [entry for entry in recorded if not str(entry.get("output", "")).startswith(prefix)]
    # A spliced file first: it is what the binary was compiled from, the kernel's own is what editors have open.
    compiled = [(plan, source) for plan in plans for source in (plan.spliced, plan.source) if source]
    entries += [_entry(workspace, plan, source, prefix) for plan, source in compiled]
    entries.sort(key=lambda entry: str(entry.get("output")))
    return text, msgspec.json.format(msgspec.json.encode(entries), indent=1) + b"\n"


def _entry(workspace: Workspace, plan: Plan, source: Path, prefix: str) -> dict[str, Any]:
    output = f"{prefix}{plan.name}.o"
    arguments = plan.compile_argv(str(source), output)
    return {"directory": str(workspace.top), "file": str(source), "output": output, "arguments": arguments}
