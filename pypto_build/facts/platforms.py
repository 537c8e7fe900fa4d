"""The platforms: the values of ``PLATFORM=`` and their properties."""

from __future__ import annotations

import msgspec

#: simpler's runtimes: what an artifact was made for.
TENSORMAP, HOST_GRAPH = "tensormap_and_ringbuffer", "host_build_graph"


class Platform(msgspec.Struct, frozen=True):
    """One value of ``PLATFORM=``.

    ``arch`` is the generation of the chip (``a2a3``: 910B/C, ``a5``: 950); ``simulated`` platforms run on the host.
    ``arch_macro`` is the number that the runtime's headers test in ``PYPTO_ARCH``.
    """

    name: str
    arch: str
    simulated: bool
    arch_macro: int


PLATFORMS: dict[str, Platform] = {
    platform.name: platform
    for platform in (
        Platform("a2a3", "a2a3", False, 2),
        Platform("a5", "a5", False, 5),
        Platform("a2a3sim", "a2a3", True, 2),
        Platform("a5sim", "a5", True, 5),
    )
}
