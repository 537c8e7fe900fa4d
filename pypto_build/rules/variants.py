"""Variants: alternative builds of an artifact's binaries, each in its own directory below OUT.

Because of these directories, switching between variants compiles nothing again.
"""

from __future__ import annotations

import msgspec

from pypto_build.facts.run_options import FAST, NUMERICS
from pypto_build.toolchain.host import CHECKED_FLAGS, DEBUG_FLAGS, kernel_numerics


class Variant(msgspec.Struct, frozen=True):
    """One way to build: its directory below OUT, and what it adds to a kernel's flags.

    Kernels that are ``checked`` record what every instruction touches; those that stand ``alone`` have instances of
    instructions of their own, as they are compiled otherwise.
    """

    directory: str
    kernel_flags: tuple[str, ...] = ()
    checked: bool = False
    alone: bool = False


USUAL = Variant("")
# Kernels that record what every instruction touches, with line numbers.
CHECKED = Variant("check", CHECKED_FLAGS, checked=True)
# The same, and what C++ itself reads and writes: for MEMORY=weak.
# The header defines the functions that -fsanitize=thread calls; it is right that g++ does not instrument fences.
_PLAIN = ("-DPYPTO_WEAK=1", "-fsanitize=thread", "-Wno-tsan", "-include", "pto/pto-inst.hpp")
WEAK = Variant("weak", (*CHECKED_FLAGS, *_PLAIN), checked=True)
# Kernels as a debugger wants them.
DEBUGGED = Variant("debug", DEBUG_FLAGS, alone=True)
# Binaries that simpler's simulator loads, compiled as it does and against its headers.
FOR_SIMPLER = Variant("simpler")


def with_numerics(variant: Variant, numerics: str) -> Variant:
    """Return the variant with the results that ``NUMERICS=`` selects, where they are known to differ."""
    if numerics == FAST:
        return variant
    directory = f"{variant.directory}-{numerics}" if variant.directory else numerics
    return Variant(directory, (*variant.kernel_flags, *kernel_numerics(numerics)), variant.checked, variant.alone)


_OWN = (with_numerics(variant, numerics) for variant in (USUAL, CHECKED, WEAK, DEBUGGED) for numerics in NUMERICS)
VARIANTS = {variant.directory: variant for variant in (*_OWN, FOR_SIMPLER)}
