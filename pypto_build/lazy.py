"""Loads the modules of a package on first use of their names, so that a tool loads only modules that it uses."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence


def attributes(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return a ``__getattr__`` for a package that loads each name from its module in ``modules``."""
    home = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{home[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
