"""The cases of an artifact: its snapshot, and further ones in directories of their own."""

from __future__ import annotations

from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.scene_test import SNAPSHOT_CASE


def find_cases(root: Path) -> dict[str, Path]:
    """Return data directories by case: ``snapshot`` is ``data/``, others are ``data/<name>`` with ``in/`` or
    ``out/``."""
    data = root / "data"
    more = sorted(path for path in data.glob("*") if (path / "in").is_dir() or (path / "out").is_dir())
    return {SNAPSHOT_CASE: data, **{path.name: path for path in more}}


def find_case(root: Path, name: str) -> Path:
    """Return the data directory of a case. Raises a usage error that lists the existing cases."""
    cases = find_cases(root)
    if name not in cases:
        raise ArtifactError(root, f"has no case '{name}'", f"it has {', '.join(cases)}")
    return cases[name]
