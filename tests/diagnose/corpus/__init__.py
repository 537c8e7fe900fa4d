"""Bugs planted in the example artifacts, and the one finding that each has to lead to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bug:
    """In the artifact `artifact`, each (file, old, new) of `edits` is applied once.

    `scons <tool>` then reports exactly one finding: `rule`, at the line of `file` that holds `at`, with `says` in it.
    `fixed`: applying the finding's own edits makes it go away; what the tool then says are the rules in `left`.
    """

    name: str
    artifact: str
    edits: tuple[tuple[str, str, str], ...]
    rule: str
    file: str
    at: str
    says: str = ""
    fixed: bool = False
    left: tuple[str, ...] = ()
    tool: str = "hazards"
