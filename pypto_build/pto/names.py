"""Names of functions: MLIR allows any text between quotes, C++, Python and files do not."""

from __future__ import annotations

import re

from .model import Module

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def require_names(module: Module) -> None:
    """Raise PtoError for a function whose name is invalid in C++ or Python, or as a kernel's file."""
    for function in module.functions():
        if function.body is not None and not _IDENTIFIER.fullmatch(function.name):
            what = "its name is not an identifier of C++; use letters, digits and _"
            raise module.error(function, what)
