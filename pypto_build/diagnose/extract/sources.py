"""What was compiled: kernels with the bodies of edited modules where those count, as the build left them in OUT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact import Artifact
from pypto_build.artifact.files import decode_json, read_bytes
from pypto_build.artifact.modules import function_names, module_digest

#: Which content of each module its kernels were made from, written by the build (docs/architecture.md §4.4).
_RECORD = ".units.json"


def as_built(artifact: Artifact, build_dir: Path) -> tuple[Artifact, dict[str, Path]]:
    """The artifact with the files that its kernels were compiled from, and by unit the assembler's output for those
    whose module was edited."""
    record = _remembered(build_dir / _RECORD)
    spliced: dict[str, Path] = {}
    raw: dict[str, Path] = {}
    for path in sorted(artifact.root.glob("ptoas/**/*.pto")):
        entry = record.get(path.stem)
        text = path.read_bytes().decode("utf-8", "replace")
        if not isinstance(entry, dict) or entry.get("module") == module_digest(text):
            continue
        chosen = entry.get("chosen")
        if isinstance(chosen, dict) and chosen.get("prefer") == "cpp":
            continue
        names = function_names(text)
        for kernel in artifact.kernels:
            file = build_dir / "spliced" / "kernels" / kernel.core_type / kernel.source.name
            if (kernel.name in names or kernel.source.stem in names) and file.is_file():
                spliced[kernel.name] = file
                raw[path.stem] = build_dir / "ptoas" / f"{path.stem}.cpp"
    kernels = tuple(
        msgspec.structs.replace(kernel, source=spliced[kernel.name]) if kernel.name in spliced else kernel
        for kernel in artifact.kernels
    )
    return msgspec.structs.replace(artifact, kernels=kernels), raw


def _remembered(path: Path) -> dict[str, Any]:
    """The record, or nothing: without it no module is known to have been edited."""
    try:
        found = decode_json(read_bytes(path), dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return {}
    return found
