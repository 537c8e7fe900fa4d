"""Rules of a device that kernels break: the check of their text creates these records, and a replay prints them."""

from __future__ import annotations

import msgspec

#: File in OUT with the broken rules of all kernels, as of the last check of their text.
FILE_NAME = "device_rules.json"
#: File in OUT with the paths of the kernels that have rules which only a run decides.
OPEN_NAME = "open_rules.json"


class BrokenRule(msgspec.Struct, frozen=True):
    """The place where a kernel breaks a rule, the kind of rule (`overlap`, `flag`, …), and the message."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def counted(rules: list[BrokenRule]) -> str:
    """Return the number of broken rules as text: `1 device rule broken`."""
    return f"{len(rules)} device rule{'' if len(rules) == 1 else 's'} broken"
