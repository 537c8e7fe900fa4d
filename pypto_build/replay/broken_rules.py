"""Reads the device rules that an artifact's kernels break, as the build recorded them in OUT."""

from __future__ import annotations

from pathlib import Path

from pypto_build.artifact.files import read_record
from pypto_build.facts.broken_rules import FILE_NAME, BrokenRule


def read_broken_rules(build_dir: Path) -> list[BrokenRule]:
    """Return the recorded rules; none if the build does not check kernels. Raises a usage error for an invalid file."""
    path = build_dir / FILE_NAME
    if not path.exists():
        return []
    return read_record(path, list[BrokenRule], "are no broken rules", "remove it, and replay again")
