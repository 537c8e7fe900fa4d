"""Names of functions: MLIR allows any text between quotes, what is made of a module does not."""

from __future__ import annotations

import re

from .model import Module

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def require_names(module: Module) -> None:
    """Raises PtoError for a function whose name can be none in C++ and Python, nor that of a kernel's file."""
    for function in module.functions():
        if function.body is not None and not _IDENTIFIER.fullmatch(function.name):
            what = "its name is no identifier, as it has to be in C++; use letters, digits and _"
            raise module.error(function, what)
