"""The connection to simpler and to hardware: scene tests, replays on simpler's runtime, pytest items, pins and
bisection.

From Python: `replay_compiled` (and the `ReplayError` it raises), loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto_build.lazy import attributes

if TYPE_CHECKING:
    from pypto_build.interop.compiled import ReplayError, replay_compiled

__all__ = ["ReplayError", "replay_compiled"]


__getattr__ = attributes(__name__, {"compiled": __all__})
