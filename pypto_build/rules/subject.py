"""What a run works on: a program and the data that it gets, however the user named it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pypto_build.artifact import Artifact
from pypto_build.artifact.distributed import Distributed
from pypto_build.toolchain.forked import ForkedTools


@dataclass(frozen=True)
class Subject:
    """An artifact, and one set of data for it; ``distributed`` is what it is for several chips.

    ``data`` is None for the artifact's own. ``origin`` is FILE::CLASS::CASE of a scene test's case, whose class decides
    what outputs are worth if it is ``judged``, in forks of ``judges`` if there are any; ``limits`` are variables of the
    run's environment. One that may be ``unchecked`` passes without a golden. ``patience`` is how many times the time
    limit its run may take.
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
