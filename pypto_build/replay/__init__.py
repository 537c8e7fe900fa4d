"""One run of an artifact: bind data, launch a runtime in its own process, compare, write the verdict.

Importing this package is cheap; `replay`, `Request` and `Verdict` are loaded when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pypto_build.replay.request import Request
    from pypto_build.replay.session import replay
    from pypto_build.replay.verdict import Verdict

__all__ = ["Request", "Verdict", "replay"]

_HOME = {"Request": "request", "replay": "session", "Verdict": "verdict"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
