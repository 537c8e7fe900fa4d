"""The operations of the .pto language, each defined once; `TABLE` maps a name to its definition."""

from __future__ import annotations

from . import comm, control, cube, memory, pipes, scalar, sync, vector
from .spec import TABLE, AttrDef, Form, OpDef, Role

__all__ = [
    "TABLE", "AttrDef", "Form", "OpDef", "Role", "comm", "control", "cube", "memory", "pipes", "scalar", "sync",
    "vector",
]  # fmt: skip
