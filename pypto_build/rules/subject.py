"""What a run works on: a program and the data that it gets, however the user named it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pypto_build.artifact import Artifact


@dataclass(frozen=True)
class Subject:
    """An artifact, and one set of data for it.

    ``data`` is None for the artifact's own. ``judge`` names the case of a scene test whose class decides what outputs
    are worth; ``limits`` are variables of the run's environment. One that may be ``unchecked`` passes without a golden.
    ``label`` is what it is called where it is one of several.
    """

    artifact: Artifact
    data: Path | None = None
    judge: str = ""
    limits: Mapping[str, str] = field(default_factory=dict)
    unchecked: bool = False
    label: str = ""
