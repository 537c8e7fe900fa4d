"""Which functions a ``.pto`` module names, told from its text: where that is all one wants, parsing takes too long."""

from __future__ import annotations

import re

_FUNCTION = re.compile(r"\bfunc\.func\s+(?:private\s+|public\s+)?@([\w.$-]+)")


def function_names(text: str) -> list[str]:
    """Every function that the module defines or declares, each once, in order."""
    return list(dict.fromkeys(_FUNCTION.findall(text)))
