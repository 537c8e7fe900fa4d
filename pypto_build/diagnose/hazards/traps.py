"""What a checked run can be ended for."""

from __future__ import annotations

from pypto_build.artifact import ArtifactError

TRAPS = ("nan", "inf", "saturate", "denormal")


def traps(text: str) -> tuple[str, ...]:
    """What a trap is set for, with commas between. Raises a usage error for anything else."""
    kinds = tuple(filter(None, (kind.strip() for kind in text.split(","))))
    for kind in kinds:
        if kind not in TRAPS:
            raise ArtifactError(f"TRAP={text}", f"there is no trap for '{kind}'", f"it takes {', '.join(TRAPS)}")
    return kinds
