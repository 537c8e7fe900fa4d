"""The operations of the .pto language, each defined once.

`TABLE` maps a name to its definition, `INSTRUCTIONS` the name of a C++ instruction to its data.
"""

from __future__ import annotations

# these define the operations
from . import cube, elementwise, memory, rearranging, scalar, sync  # noqa: F401
from .spec import INSTRUCTIONS, TABLE, AttrDef, Instruction, OpDef, Role, Rule, Variant

#: Operations that place a tile in on-chip memory.
TILE_ALLOCATIONS = ("pto.alloc_tile", "memref.alloc")

__all__ = [
    "INSTRUCTIONS",
    "TABLE",
    "TILE_ALLOCATIONS",
    "AttrDef",
    "Instruction",
    "OpDef",
    "Role",
    "Rule",
    "Variant",
]
