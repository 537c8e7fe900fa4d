"""Sources that the build compiled: a kernel whose module was edited has the module's body, which is kept in OUT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from pypto_build.artifact import Artifact
from pypto_build.artifact.files import decode_json, read_bytes
from pypto_build.artifact.modules import function_names, module_digest

#: The build's record of the module contents that kernels were made from (docs/architecture.md §4.4).
_RECORD = ".units.json"


def as_built(artifact: Artifact, build_dir: Path) -> tuple[Artifact, dict[str, Path]]:
    """Return the artifact with the files that its kernels were compiled from.

    Also returns the assembler's output for each unit whose module was edited.
    """
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
    """Return the record, or an empty one if it cannot be read. Without it, all modules count as unedited."""
    try:
        found = decode_json(read_bytes(path), dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return {}
    return found
