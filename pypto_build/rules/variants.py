"""The ways an artifact's binaries can be built besides the usual one, each in a directory of its own below OUT.

A directory each, so that going from one to another and back compiles nothing again.
"""

from __future__ import annotations

import msgspec


class Variant(msgspec.Struct, frozen=True):
    """One way to build: its directory below OUT, and what it adds to a kernel's flags."""

    directory: str
    kernel_flags: tuple[str, ...] = ()


USUAL = Variant("")
# Kernels that record what every instruction touches, with line numbers.
CHECKED = Variant("check", ("-DPYPTO_CHECK=1", "-g1"))
# The same, and what C++ itself reads and writes: for MEMORY=weak.
WEAK = Variant("weak", (*CHECKED.kernel_flags, "-DPYPTO_WEAK=1", "-fsanitize=thread"))
# Binaries that simpler's simulator loads, compiled as it does and against its headers.
FOR_SIMPLER = Variant("simpler")

VARIANTS = {variant.directory: variant for variant in (USUAL, CHECKED, WEAK, FOR_SIMPLER)}
