"""Completes artifacts that were compiled without ptoas, in a copy below OUT from which they are then built.

The manifest decides which nodes exist. So this runs while SCons reads its scripts, as a separate command. It runs only
if the modules, the orchestration or the assembler changed since the last run.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from pypto_build import terminal
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
from pypto_build.artifact.files import decode_json, read_bytes, write_bytes
from pypto_build.facts.platforms import Platform
from pypto_build.proof import Outcome
from pypto_build.rules.machinery.python_tools import python_tool
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.ptoas import find_ptoas

DIRECTORY = "completed"
RECORD = ".completed.json"  # in it: the units that were assembled
# Files that are read besides the modules and the orchestration.
_DECLARED = ("kernel_config.py", "compiled_meta.json")


def open_artifacts(workspace: Workspace, root: Path, platform_name: str | None = None) -> tuple[Artifact, ...]:
    """Return the artifact in ``root``, or each of its parts; completed if it has only modules.

    Raises:
        ArtifactError: ``root`` is not an artifact, or one of its modules cannot be assembled.
        ToolchainError: there is no assembler for the platform.
    """
    children = () if (root / MANIFEST_NAME).is_file() or lacks_kernels(root) else find_children(root)
    if not any(map(lacks_kernels, [root, *children])):
        return load_artifacts(root, workspace.manifests)
    return tuple(open_artifact(workspace, part, platform_name) for part in children or (root,))


def open_artifact(workspace: Workspace, root: Path, platform_name: str | None = None) -> Artifact:
    """Return the one artifact in ``root``, completed if it has only modules; raises as ``open_artifacts``."""
    if lacks_kernels(root):
        root = _completed(workspace, root, workspace.platform(platform_name))
    return load_artifact(root, workspace.manifests)


def is_completed(artifact: Artifact) -> bool:
    """Return True if this is the completed copy of an artifact that has only modules."""
    return artifact.root.parent.name == DIRECTORY


def assembled_units(artifact: Artifact) -> set[str]:
    """Return the units that were assembled when the artifact was completed: their bodies match their modules."""
    if not is_completed(artifact):
        return set()
    try:
        return set(decode_json(read_bytes(artifact.root / RECORD), dict[str, str]))
    except (OSError, ValueError):
        return set()


def _completed(workspace: Workspace, root: Path, platform: Platform) -> Path:
    output = workspace.output(artifact_name(root), root, platform)
    tree = f"{DIRECTORY}/{artifact_name(root)}"
    ptoas = find_ptoas(workspace.options["PTOAS"], os.environ)
    if ptoas is None and not platform.simulated:
        raise ToolchainError(
            f"{root}: holds .pto modules but no kernel sources, and {platform.name} needs ptoas to "
            "assemble them; set PTOAS_ROOT or PTOAS="
        )
    output_dir, completed = workspace.output_dir(output, artifact=root), output / tree
    argv = [str(root), "--platform", platform.name, "--output", str(completed)]
    argv += ["--ptoas", ptoas.path] if ptoas else []
    action = python_tool(
        workspace,
        "pypto_build.compiler.complete",
        argv,
        name=DIRECTORY,
        tree=tree,
        inputs=[path for name in _DECLARED if (path := root / name).is_file()],
        settings={"the assembler": ptoas.identity if ptoas else "own"},
        shared=False,  # it links to the artifact's data
    )
    outcome = output_dir.perform(action, _run, tuple)
    if outcome.status:
        raise _error(outcome)
    return completed


def write_completed(artifact: Artifact, root: Path) -> list[tuple[Path, Path | None]]:
    """Write the missing files into the artifact, and move its modules to PyPTO's directory for them.

    Returns the files with None for each, since nothing is replaced.
    """
    built = [path for folder in ("ptoas", "kernels") for path in sorted((artifact.root / folder).rglob("*"))]
    files = [
        path for path in [*built, artifact.manifest_path] if path.is_file()
    ]  # the manifest last: it says that all is there
    written: list[tuple[Path, Path | None]] = []
    for path in files:
        target = root / path.relative_to(artifact.root)
        if not target.exists():
            write_bytes(target, path.read_bytes())
            written.append((target, None))
    for path in sorted((root / "kernels").rglob("*.pto")):
        if (root / "ptoas" / path.name).exists():
            path.unlink()  # it has been copied
    return written


def _run(words: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Run the tool and print its output at once; return its status and its error output."""
    run = subprocess.run(words, env=environment, capture_output=True, text=True, errors="replace", check=False)
    terminal.pass_on(run.stdout, error=False, ours=True)
    if not run.returncode:
        terminal.pass_on(run.stderr)
    return run.returncode, run.stderr


def _error(outcome: Outcome) -> ArtifactError:
    """Return the tool's error, after printing the lines before it."""
    output = outcome.note or outcome.printed
    lines = [line for line in output.splitlines() if line.strip()] or ["error: : no reason given"]
    fault = next((line for line in lines if line.startswith("error: ")), lines[-1])
    for line in lines:
        if line != fault:
            terminal.complain(line)
    subject, _, message = fault.removeprefix("error: ").partition(": ")
    return ArtifactError(subject, message, kind="usage_error" if outcome.status == 2 else "build_error")
