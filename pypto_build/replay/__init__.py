"""One run of an artifact: binds data, launches a runtime in its own process, compares outputs, and writes the verdict.

Importing this package is cheap; `replay`, `Request` and `Verdict` are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto_build.lazy import attributes

if TYPE_CHECKING:
    from pypto_build.replay.request import Request
    from pypto_build.replay.session import replay
    from pypto_build.replay.verdict import Verdict

__all__ = ["Request", "Verdict", "replay"]

__getattr__ = attributes(__name__, {"request": ["Request"], "session": ["replay"], "verdict": ["Verdict"]})
