"""Which block of a launch a kernel runs as."""

from __future__ import annotations

_block = [0, 1]  # number of the block, how many there are
