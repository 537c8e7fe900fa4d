"""The block of a launch as which a kernel runs."""

from __future__ import annotations

_block = [0, 1]  # number of the block, how many there are
