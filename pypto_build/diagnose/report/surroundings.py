"""Environment of a run: machine, compiler, versions, and digests of everything that went into it."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import msgspec

from pypto_build import __version__
from pypto_build.artifact import Artifact, ArtifactError, snapshot
from pypto_build.artifact.files import decode_json, file_digest, read_bytes
from pypto_build.artifact.interface import relative_source
from pypto_build.diagnose.recorded.evidence import Evidence
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.programs import version_text

_SHOWN_DIGITS = 16


def environment(evidence: Evidence, data_dir: Path | None) -> list[list[str]]:
    """Names and values, in the order in which they are shown."""
    rows = [
        ["pypto-build", __version__],
        ["python", f"{platform.python_version()} ({sys.implementation.name})"],
        ["machine", f"{platform.platform()}, {os.cpu_count()} processors"],
        *_compiler(evidence),
    ]
    verdict, artifact = evidence.verdict, evidence.artifact
    rows += [["vintage of the artifact", verdict.vintage]] if verdict and verdict.vintage else []
    if artifact is None:
        return rows
    rows.append(["runtime of the artifact", artifact.runtime])
    if artifact.meta:
        rows.append(["compiled for", " ".join(filter(None, (artifact.meta.platform, artifact.meta.backend_type)))])
    rows += _upstream_revisions(artifact.root)
    rows += [[f"sha256 of {name}", digest] for name, digest in digests(artifact, data_dir).items()]
    return rows


def digests(artifact: Artifact, data_dir: Path | None) -> dict[str, str]:
    """The beginnings of the digests of manifest, sources and data, by path."""
    files = {relative_source(path, artifact.root): path for path in artifact.sources}
    try:
        data = snapshot(artifact, data_dir)
    except ArtifactError:
        data = None
    if data is not None:
        files |= {f"data/in/{name}.pt": path for name, path in data.inputs.items()}
        files |= {f"data/out/{name}.pt": path for name, path in data.outputs.items()}
    return {name: file_digest(path)[:_SHOWN_DIGITS] for name, path in files.items() if path.is_file()}


class _Entry(msgspec.Struct):
    directory: str
    output: str
    arguments: list[str] = []
    command: str = ""


def _compiler(evidence: Evidence) -> list[list[str]]:
    """The compiler of the kernels, from the compile commands of the build."""
    if evidence.build_dir is None:
        return []
    listing = evidence.build_dir.parent.parent / "compile_commands.json"
    try:
        entries = decode_json(read_bytes(listing), list[_Entry])
        inside = str(evidence.build_dir.resolve())
        own = next(e for e in entries if str(Path(e.directory, e.output).resolve()).startswith(inside))
    except (OSError, ValueError, StopIteration):
        return []
    words = own.arguments or own.command.split()
    if not words:
        return []
    try:
        version = version_text(words[0], "").partition("\n")[0]
    except (ToolchainError, OSError, ValueError):
        version = ""
    flags = [word for word in words[1:] if word.startswith(("-O", "-m", "-std", "-D", "-f"))]
    return [["compiler", version or words[0]], ["flags", " ".join(flags)]]


def _upstream_revisions(root: Path) -> list[list[str]]:
    """The revisions PyPTO stamped into an artifact that it ran itself."""
    try:
        stamp = decode_json(read_bytes(root / "cache" / "binary_context.json"), dict[str, Any])
    except (OSError, ValueError):
        return []
    names = {"runtime_revision": "simpler revision", "pto_isa_revision": "pto-isa revision"}
    return [[shown, stamp[key]] for key, shown in names.items() if isinstance(stamp.get(key), str) and stamp[key]]
