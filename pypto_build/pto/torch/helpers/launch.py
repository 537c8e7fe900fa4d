"""The current block of a launch, which the running kernel reads."""

from __future__ import annotations

_block = [0, 1]  # number of the block, how many there are
