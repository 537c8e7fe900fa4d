"""Regions: memory that another program and the orchestrations of chips share while both run.

It is an unnamed file of that program, so it disappears with the last process that has it open. Byte `n` of the file is
always at `ADDRESS + n` in simulated chips, so that descriptors are the same in every run. Its first byte tells that the
chips have begun.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

from pypto_build.artifact.errors import ArtifactError
from pypto_build.facts.faults import FaultKind
from pypto_build.facts.run_options import REGIONS
from pypto_build.replay.chips.memory import PAGE, forbid, round_up
from pypto_build.runtime.faults import RuntimeFault, python_fault

#: The address of its first byte: far from programs, their heaps, libraries and stacks.
ADDRESS = 0x2000_0000_0000
BEGUN = b"\1"

_PROT_READ_WRITE, _MAP_SHARED, _MAP_FIXED_NOREPLACE = 3, 1, 0x100000


@dataclass(frozen=True)
class HostRegions:
    """The mapping of that file in this process and its forks: its first `size` bytes."""

    size: int = 0

    def attach(self, *spans: tuple[int, int]) -> None:
        """Make the page behind each span (offset in the file, bytes) fault. Raises `RuntimeFault` for a span outside of
        the file."""
        for offset, nbytes in spans:
            end = offset + round_up(nbytes, PAGE)
            if end + PAGE > self.size:
                text = "the chips share memory with the program that starts them, and it is not there"
                hint = "run the test whose worker runs this, by pytest"
                raise RuntimeFault(python_fault(FaultKind.UNUSABLE_INPUT, text, hint=hint))
            forbid(ADDRESS + end)

    def tell_begun(self) -> None:
        """Set the byte that tells that the chips have begun."""
        if self.size:
            ctypes.c_char.from_address(ADDRESS).value = BEGUN


NO_REGIONS = HostRegions()


def map_regions() -> HostRegions:
    """Map the file that the environment names, if any. Raises `ArtifactError` if that fails."""
    path = os.environ.get(REGIONS, "")
    if not path:
        return NO_REGIONS
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            size = os.fstat(file).st_size
            _map(file, size)
        finally:
            os.close(file)
    except OSError as error:
        hint = f"unset {REGIONS}: the program that set it maps its memory itself"
        raise ArtifactError(f"{REGIONS}={path}", f"cannot be mapped: {error.strerror}", hint) from None
    return HostRegions(size)


def _map(file: int, size: int) -> None:
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    address = system.mmap(ADDRESS, size, _PROT_READ_WRITE, _MAP_SHARED | _MAP_FIXED_NOREPLACE, file, 0)
    if address != ADDRESS:
        raise OSError(ctypes.get_errno(), f"0x{ADDRESS:x} is taken")
