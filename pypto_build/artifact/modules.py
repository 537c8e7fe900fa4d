"""Names and content of a ``.pto`` module, read from its text because parsing would take too long."""

from __future__ import annotations

import hashlib
import re
from collections import Counter

_FUNCTION = re.compile(r"\bfunc\.func\s+(?:private\s+|public\s+)?@([\w.$-]+)")


def function_names(text: str) -> list[str]:
    """Every function that the module defines or declares, each once, in order."""
    return list(dict.fromkeys(_FUNCTION.findall(text)))


# Where in the program an operation comes from: it changes with every line above, and nothing is made from it.
_POSITION = re.compile(r'[ \t]*\bloc\("[^"\n]*":\d+:\d+\)')


def module_digest(text: str) -> str:
    """Return the digest of a module's text without its source positions."""
    return hashlib.sha256(_POSITION.sub("", text).encode()).hexdigest()


#: Operations that every assembler makes one instruction of each, named like them.
_ALIKE = (
    *("tadd", "tsub", "tmul", "tdiv", "tneg", "texp", "tlog", "tsqrt"),
    *("trsqrt", "tabs", "tmax", "tmin", "trelu", "tadds", "tmuls"),
)
_OPERATION = re.compile(rf"\bpto\.({'|'.join(_ALIKE)})\b")
_INSTRUCTION = re.compile(rf"\b({'|'.join(_ALIKE).upper()})\s*\(")
_COMMENT = re.compile(r"//[^\n]*")


def same_operations(module: str, assembled: str) -> bool:
    """Return whether an assembler's output has certain operations as often as the module. If not, it was assembled
    from another module.
    """
    operations = Counter(_OPERATION.findall(_COMMENT.sub("", module)))
    return operations == Counter(name.lower() for name in _INSTRUCTION.findall(_COMMENT.sub("", assembled)))
