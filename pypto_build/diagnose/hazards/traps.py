"""Kinds of values that can end a checked run."""

from __future__ import annotations

from pypto_build.artifact import ArtifactError

TRAPS = ("nan", "inf", "saturate", "denormal")


def traps(text: str) -> tuple[str, ...]:
    """Parse the kinds of TRAP=, separated by commas. Raises a usage error for an unknown kind."""
    kinds = tuple(filter(None, (kind.strip() for kind in text.split(","))))
    for kind in kinds:
        if kind not in TRAPS:
            raise ArtifactError(f"TRAP={text}", f"there is no trap for '{kind}'", f"it takes {', '.join(TRAPS)}")
    return kinds
