"""The ways an artifact's binaries can be built besides the usual one, each in a directory of its own below OUT.

A directory each, so that going from one to another and back compiles nothing again.
"""

from __future__ import annotations

import msgspec

from pypto_build.toolchain.host import CHECKED_FLAGS, DEBUG_FLAGS


class Variant(msgspec.Struct, frozen=True):
    """One way to build: its directory below OUT, and what it adds to a kernel's flags; ``alone``: kernels have
    instances of instructions of their own, as they are compiled otherwise."""

    directory: str
    kernel_flags: tuple[str, ...] = ()
    alone: bool = False


USUAL = Variant("")
# Kernels that record what every instruction touches, with line numbers.
CHECKED = Variant("check", CHECKED_FLAGS)
# Kernels as a debugger wants them.
DEBUGGED = Variant("debug", DEBUG_FLAGS, alone=True)
# Binaries that simpler's simulator loads, compiled as it does and against its headers.
FOR_SIMPLER = Variant("simpler")

VARIANTS = {variant.directory: variant for variant in (USUAL, CHECKED, DEBUGGED, FOR_SIMPLER)}
