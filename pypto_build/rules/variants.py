"""The ways an artifact's binaries can be built besides the usual one, each in a directory of its own below OUT.

A directory each, so that going from one to another and back compiles nothing again.
"""

from __future__ import annotations

import msgspec

from pypto_build.facts.run_options import FAST, NUMERICS
from pypto_build.toolchain.host import kernel_numerics


class Variant(msgspec.Struct, frozen=True):
    """One way to build: its directory below OUT, and what it adds to a kernel's flags.

    Kernels that are ``checked`` record what every instruction touches.
    """

    directory: str
    kernel_flags: tuple[str, ...] = ()
    checked: bool = False


USUAL = Variant("")
CHECKED = Variant("check", ("-DPYPTO_CHECK=1", "-g1"), checked=True)  # with line numbers
# Binaries that simpler's simulator loads, compiled as it does and against its headers.
FOR_SIMPLER = Variant("simpler")


def own_variant(checked: bool, numerics: str) -> Variant:
    """How binaries for the embedded runtime are built, with the results of ``NUMERICS=``."""
    usual = CHECKED if checked else USUAL
    if numerics == FAST:
        return usual
    directory = f"{usual.directory}-{numerics}" if checked else numerics
    return Variant(directory, (*usual.kernel_flags, *kernel_numerics(numerics)), checked)


_OWN = (own_variant(checked, numerics) for numerics in NUMERICS for checked in (False, True))
VARIANTS = {variant.directory: variant for variant in (*_OWN, FOR_SIMPLER)}
