"""A copy of an artifact in which something is tried, so that the artifact stays as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pypto_build.artifact import Artifact
from pypto_build.toolchain.forked import ForkedTools
from pypto_build.toolchain.python import own_tool


class Counted:
    """Return the number of replays made to find the answer."""

    replays = 0


counted = Counted()
#: The tools that load PyTorch, which takes longer than they work: forks of one process that has loaded it.
with_torch = ForkedTools(("torch", "pypto_build.compiler.golden", "pypto_build.diagnose.diverge"))


def copy_artifact(artifact: Artifact, scratch: Path) -> Path:
    """Copy the artifact into a directory; its copy. Sources are links: to change one, remove it first."""
    copy = scratch / artifact.root.name
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(artifact.root, copy, copy_function=_linked)
    return copy


def make_golden(artifact: Path) -> bool:
    """Compute the golden of a copy again with its golden.py. Returns whether that worked."""
    (artifact / "data" / "golden.json").unlink(missing_ok=True)
    return with_torch.run([*own_tool("pypto_build.compiler.golden"), str(artifact)], os.environ)[0] == 0


def compile_program(program: Path, output: Path, flags: Sequence[str]) -> bool:
    """Compile a program into a directory, without data. Return whether that could be done."""
    command = [*own_tool("pypto_build.compiler"), str(program), "--output", str(output), "--no-golden", *flags]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def passes(artifact: Path, scratch: Path, words: Sequence[str]) -> bool:
    """Return whether a copy passes in a replay with these words."""
    counted.replays += 1
    command = [*own_tool("pypto_build.cli"), "replay", str(artifact), f"BUILD_DIR={scratch / 'build'}", *words]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _linked(source: str, target: str) -> None:
    """A file of the copy. Tools write data, so that is never the same file."""
    if not source.endswith((".pt", ".json")):
        try:
            os.link(source, target)
            return
        except OSError:
            pass
    shutil.copy2(source, target)
