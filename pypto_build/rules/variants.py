"""The ways an artifact's binaries can be built besides the usual one, each in a directory of its own below OUT.

A directory each, so that going from one to another and back compiles nothing again.
"""

from __future__ import annotations

import msgspec

from pypto_build.facts.run_options import SIMULATOR
from pypto_build.toolchain.host import kernel_numerics


class Variant(msgspec.Struct, frozen=True):
    """One way to build: its directory below OUT, and what it adds to a kernel's flags.

    Kernels that are ``checked`` record what every instruction touches.
    """

    directory: str
    kernel_flags: tuple[str, ...] = ()
    checked: bool = False


USUAL = Variant("")
_CHECK = ("-DPYPTO_CHECK=1", "-g1")  # with line numbers
CHECKED = Variant("check", _CHECK, checked=True)
# The same two with the results of upstream's simulator, where the device gives others: NUMERICS=simulator.
_SIMULATOR = kernel_numerics(SIMULATOR)
AS_SIMULATOR = Variant("simulator", _SIMULATOR)
CHECKED_AS_SIMULATOR = Variant("check-simulator", (*_CHECK, *_SIMULATOR), checked=True)
# Binaries that simpler's simulator loads, compiled as it does and against its headers.
FOR_SIMPLER = Variant("simpler")

VARIANTS = {variant.directory: variant for variant in (USUAL, CHECKED, AS_SIMULATOR, CHECKED_AS_SIMULATOR, FOR_SIMPLER)}


def own_variant(checked: bool, numerics: str) -> Variant:
    """How binaries for the embedded runtime are built."""
    if numerics == SIMULATOR:
        return CHECKED_AS_SIMULATOR if checked else AS_SIMULATOR
    return CHECKED if checked else USUAL
