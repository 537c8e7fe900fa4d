"""Lint's findings in an artifact, from a separate command: no file it reads can end the server."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.manifest import MANIFEST_NAME
from pypto_build.diagnose.findings import Finding, read_report
from pypto_build.toolchain.python import own_environment, own_tool

_TIMEOUT_S = 60.0


def artifact_of(path: Path) -> Path | None:
    """The artifact that a file belongs to."""
    return next((parent for parent in path.parents if (parent / MANIFEST_NAME).is_file()), None)


def is_looked_at(path: Path, artifact: Path) -> bool:
    """Return whether lint reads the file."""
    name = path.relative_to(artifact)
    return name.name == MANIFEST_NAME or name.parts[0] in ("orchestration", "kernels")


async def lint(artifact: Path, platform: str) -> list[Finding]:
    """The findings; empty where lint ends otherwise."""
    with tempfile.TemporaryDirectory(prefix="pypto-build-") as directory:
        file = Path(directory, "lint.json")
        words = [str(artifact), *(["--platform", platform] if platform else []), "--json", str(file)]
        command = [*own_tool("pypto_build.diagnose.lint"), *words]
        quiet = asyncio.subprocess.DEVNULL
        child = await asyncio.create_subprocess_exec(
            *command, stdin=quiet, stdout=quiet, stderr=quiet, env=own_environment()
        )
        try:
            await asyncio.wait_for(child.wait(), _TIMEOUT_S)
        except (TimeoutError, asyncio.TimeoutError):
            child.kill()
            await child.wait()
        try:
            return list(read_report(file).findings)
        except (ArtifactError, OSError):
            return []
