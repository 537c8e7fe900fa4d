"""What makes stores visible, as edits write it."""

from __future__ import annotations

#: Of a line of a data cache.
LINE_BYTES = 64
CLEAN, FENCE = "dcci((__gm__ void *)0, cache_line_t::ENTIRE_DATA_CACHE);", "dsb(DSB_DDR);"


def after_store(plain: bool, pipe: str) -> str:
    """The markers behind a store of C++ itself, or of a pipe."""
    return f"{CLEAN} {FENCE}" if plain else f"pipe_barrier(PIPE_{pipe}); {FENCE}"
