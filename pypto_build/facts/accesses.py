"""Numbers in the access records of checked kernels, equal to those in `runtime/include/pypto/check_abi.h`."""

from __future__ import annotations

#: Kinds of accesses, which are combined.
READ, WRITE, ATOMIC, SCRATCH, PLAIN = 1, 2, 4, 16, 32
#: Names of pipes by number.
PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "ALL", "MTE4", "MTE5", "V2", "FIX")
#: Names of a core's memories by number.
SPACES = ("UB", "L1", "L0A", "L0B", "L0C", "BIAS", "FBUF", "SCALE_A", "SCALE_B")
