"""pto-isa's headers as a peer: how simpler's simulator compiles kernels with them, and the memories they simulate."""

from __future__ import annotations

#: The optimisation and the macros are those of simpler's simulator; the rest lets g++ 15 and clang 19 take them.
PEER_FLAGS = (
    *("-O2", "-fPIC", "-std=c++2b", "-fpermissive", "-w", "-include", "cstdint"),
    *("-D__CPU_SIM", "-DPTO_CPU_MAX_THREADS=1", "-DNDEBUG"),
)
CORE_MACRO = {"aic": "-D__DAV_CUBE__", "aiv": "-D__DAV_VEC__"}

#: Environment of a process that loads the peer's kernels: every simulated memory is large enough for any tile.
PEER_MEMORY = {f"PTO_CPU_SIM_{space}_BYTES": str(1 << 20) for space in ("UB", "L1", "L0A", "L0B", "L0C")}
