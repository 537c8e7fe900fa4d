"""Artifacts compiled without ptoas: completed below OUT before anything is declared, and then built from there.

Which nodes there are follows from the manifest, so this runs while SCons reads, as a command line of its own, and only
when the content of the modules, of the orchestration or of the assembler differs from the last time.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pypto_build.artifact import (
    MANIFEST_NAME,
    Artifact,
    ArtifactError,
    artifact_name,
    find_children,
    lacks_kernels,
    load_artifact,
    load_artifacts,
)
from pypto_build.artifact.atomic import write_bytes
from pypto_build.rules.sources import tool_digest
from pypto_build.rules.workspace import Workspace
from pypto_build.toolchain import Platform, ToolchainError
from pypto_build.toolchain.ptoas import Ptoas, find_ptoas
from pypto_build.toolchain.python import own_environment, own_tool

DIRECTORY = "completed"


def open_artifacts(workspace: Workspace, root: Path, platform_name: str | None = None) -> tuple[Artifact, ...]:
    """The artifact in ``root``, or each of its parts; completed if it has only modules.

    Raises:
        ArtifactError: it is none, or a module of it cannot be assembled.
        ToolchainError: there is no assembler for the platform.
    """
    children = () if (root / MANIFEST_NAME).is_file() or lacks_kernels(root) else find_children(root)
    if not any(map(lacks_kernels, [root, *children])):
        return load_artifacts(root)
    return tuple(open_artifact(workspace, part, platform_name) for part in children or (root,))


def open_artifact(workspace: Workspace, root: Path, platform_name: str | None = None) -> Artifact:
    """The one artifact in ``root``, completed if it has only modules; raises as ``open_artifacts``."""
    if lacks_kernels(root):
        root = _completed(workspace, root, workspace.platform(platform_name))
    return load_artifact(root)


def is_completed(artifact: Artifact) -> bool:
    """Whether this is what was made of an artifact that has only modules."""
    return artifact.root.parent.name == DIRECTORY


def _completed(workspace: Workspace, root: Path, platform: Platform) -> Path:
    output = workspace.output(artifact_name(root), root, platform) / DIRECTORY
    made, stamp = output / artifact_name(root), output / ".key"
    ptoas = find_ptoas(workspace.options["PTOAS"], os.environ)
    if ptoas is None and not platform.simulated:
        raise ToolchainError(
            f"{root}: has only .pto modules, and {platform.name} needs ptoas; set PTOAS_ROOT or PTOAS="
        )
    assembler = _identity(ptoas)
    key = hashlib.sha256("\n".join([assembler, *_contents(root)]).encode()).hexdigest()
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != key or not (made / "kernel_config.py").exists():
        _run(root, made, platform, ptoas, assembler)
        write_bytes(stamp, key.encode())
    return made


def write_completed(artifact: Artifact, root: Path) -> list[tuple[Path, Path | None]]:
    """Put what completes an artifact into it; its modules move to where PyPTO keeps them beside kernels.

    Returns the files with None for each, since nothing is replaced.
    """
    made = [path for folder in ("ptoas", "kernels") for path in sorted((artifact.root / folder).rglob("*"))]
    files = [
        path for path in [*made, artifact.manifest_path] if path.is_file()
    ]  # the manifest last: it says all is there
    written: list[tuple[Path, Path | None]] = []
    for path in files:
        place = root / path.relative_to(artifact.root)
        if not place.exists():
            write_bytes(place, path.read_bytes())
            written.append((place, None))
    for path in sorted((root / "kernels").rglob("*.pto")):
        if (root / "ptoas" / path.name).exists():
            path.unlink()  # it has been copied
    return written


def _identity(ptoas: Ptoas | None) -> str:
    """What every unit depends on besides its module."""
    tools = f"{tool_digest('pto')} {tool_digest('compiler')} {tool_digest('artifact')}"
    return hashlib.sha256(f"{ptoas.identity if ptoas else 'own'} {tools}".encode()).hexdigest()


def _contents(root: Path) -> Iterator[str]:
    for pattern in ("kernels/**/*.pto", "orchestration/*", "kernel_config.py", "compiled_meta.json"):
        for path in sorted(root.glob(pattern)):
            if path.is_file():
                yield f"{path.relative_to(root)} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def _run(root: Path, made: Path, platform: Platform, ptoas: Ptoas | None, key: str) -> None:
    words = [*own_tool("pypto_build.compiler.complete"), str(root), "--platform", platform.name]
    words += ["--output", str(made), "--key", key, *(["--ptoas", ptoas.path] if ptoas else [])]
    run = subprocess.run(words, env=own_environment(), capture_output=True, text=True, check=False)
    print(run.stdout, end="", flush=True)
    if run.returncode:
        lines = [line for line in run.stderr.splitlines() if line.strip()] or ["error: : no reason given"]
        fault = next((line for line in lines if line.startswith("error: ")), lines[-1])
        for line in lines:
            if line != fault:
                print(line, file=sys.stderr)
        place, _, message = fault.removeprefix("error: ").partition(": ")
        raise ArtifactError(place, message, kind="usage_error" if run.returncode == 2 else "build_error")
    print(run.stderr, end="", file=sys.stderr)
