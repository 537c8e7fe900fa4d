"""The subject of a run: a program and its data, from any kind of name that the user gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pypto_build.artifact import Artifact
from pypto_build.artifact.distributed import Distributed
from pypto_build.toolchain.forked import ForkedTools


@dataclass(frozen=True)
class Subject:
    """An artifact, and one set of data for it; ``distributed`` describes a program for several chips.

    ``data`` is None for the artifact's own. ``origin`` is FILE::CLASS::CASE of a scene test's case. If the subject is
    ``judged``, the class of that case judges its outputs, in forks of ``judges`` if there are any.

    ``limits`` are variables of the run's environment. A subject that is ``unchecked`` passes without a golden. The time
    limit of its run is multiplied by ``patience``.
    """

    artifact: Artifact
    data: Path | None = None
    origin: str = ""
    judged: bool = False
    judges: ForkedTools | None = None
    limits: Mapping[str, str] = field(default_factory=dict)
    unchecked: bool = False
    patience: int = 1
    distributed: Distributed | None = None
