"""The way to simpler and to hardware: scene tests, replays on simpler's runtime, pytest items, pins and bisection.

From Python: `replay_compiled` (and the `ReplayError` it raises), loaded when first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pypto_build.interop.compiled import ReplayError, replay_compiled

__all__ = ["ReplayError", "replay_compiled"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pypto_build.interop import compiled

    return getattr(compiled, name)
