"""Memory that the jobs of a batch may take together."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

#: Memory that a job is assumed to need until it is known: a compiler at work on one kernel.
ASSUMED = 600 << 20
_SHARE = 0.9


def available() -> int:
    """Bytes that this machine, or the control group of this process, has left; nine tenths of them."""
    found = [_of_the_machine(), *_of_the_group()]
    return int(_SHARE * min(found))


def _of_the_machine() -> int:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 1 << 62


def _of_the_group() -> list[int]:
    """Return the bytes that the control group may still take; an empty list if it has no limit."""
    with suppress(OSError, ValueError, IndexError):
        group = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()[0].rpartition(":")[2]
        place = Path("/sys/fs/cgroup", group.lstrip("/"))
        limit = (place / "memory.max").read_text(encoding="ascii").strip()
        if limit != "max":
            return [max(int(limit) - int((place / "memory.current").read_text(encoding="ascii")), ASSUMED)]
    return []
