"""Lets the simpler in ``PYPTO_SIMPLER_FIRST`` (directories) be imported, whatever the environment has installed.

An editable installation answers imports before PYTHONPATH is looked at. Nothing of ours can be imported here.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from typing import Any

_PLACES = os.environ.get("PYPTO_SIMPLER_FIRST", "").split(os.pathsep)
_NAMES = ("simpler", "simpler_setup", "_task_interface")


class First:
    """An import hook that answers for simpler's packages before any other."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of a module in the checkout; None for all other modules."""
        if name.partition(".")[0] not in _NAMES:
            return None
        return PathFinder.find_spec(name, _PLACES if path is None else path)


def go_on() -> None:
    """Import the environment's own ``sitecustomize``, which this file hides."""
    here = os.path.dirname(os.path.abspath(__file__))
    ours = sys.modules.pop("sitecustomize", None)
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    try:
        import sitecustomize  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except ImportError:
        if ours is not None:
            sys.modules["sitecustomize"] = ours


if __name__ == "sitecustomize":
    sys.meta_path.insert(0, First())  # type: ignore[arg-type, unused-ignore]
    go_on()
