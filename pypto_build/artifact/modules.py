"""Names and content of a ``.pto`` module, read from its text because parsing would take too long."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

from pypto_build.artifact.files import decode_json, read_bytes, read_source

#: The record in an output directory of the modules and bodies that matched last.
RECORD = ".units.json"

_FUNCTION = re.compile(r"\bfunc\.func\s+(?:private\s+|public\s+)?@([\w.$-]+)")


def function_names(text: str) -> list[str]:
    """Every function that the module defines or declares, each once, in order."""
    return list(dict.fromkeys(_FUNCTION.findall(text)))


# Where in the program an operation comes from: it changes with every line above, and nothing is made from it.
_POSITION = re.compile(r'[ \t]*\bloc\("[^"\n]*":\d+:\d+\)')


def module_digest(text: str) -> str:
    """Return the digest of a module's text without its source positions."""
    return hashlib.sha256(_POSITION.sub("", text).encode()).hexdigest()


def spliced_modules(artifact: Path, output: Path) -> list[Path]:
    """Return the edited modules that replays run: their kernels' own bodies are older, and stay as they are.

    Without a record that can be read, all modules count as unedited.
    """
    try:
        record = decode_json(read_bytes(output / RECORD), dict[str, Any])
    except (OSError, ValueError):
        return []
    return [path for path in sorted(artifact.glob("ptoas/*.pto")) if _is_spliced(path, record.get(path.stem))]


def _is_spliced(module: Path, entry: Any) -> bool:
    if not isinstance(entry, dict) or entry.get("module") == module_digest(read_source(module)):
        return False
    chosen = entry.get("chosen")
    return not (isinstance(chosen, dict) and chosen.get("prefer") == "cpp")


#: Operations that every assembler makes one instruction of each, named like them.
_ALIKE = (
    *("tadd", "tsub", "tmul", "tdiv", "tneg", "texp", "tlog", "tsqrt"),
    *("trsqrt", "tabs", "tmax", "tmin", "trelu", "tadds", "tmuls"),
)
_OPERATION = re.compile(rf"\bpto\.({'|'.join(_ALIKE)})\b")
_INSTRUCTION = re.compile(rf"\b({'|'.join(_ALIKE).upper()})\s*\(")
_COMMENT = re.compile(r"//[^\n]*")


#: Lines whose constants every assembler writes as they are; it folds those of shapes and of arithmetic.
_USE = re.compile(r"^\s*(?:%[^=\n]{1,99}=\s*)?(?:scf\.for\b|pto\.(?!make_tensor_view)\w).*$", re.MULTILINE)
_CONSTANT = re.compile(r"(%[\w.$-]+)\s*=\s*arith\.constant\s+-?(\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*:")
_NAME = re.compile(r"%[\w.$-]+")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d*)?(?:[eE][-+]?\d+)?(?=[fuUlL]*\b|\b)")


def assembled_from(module: str, assembled: str) -> bool:
    """Return whether an assembler's output has certain operations as often as the module, and the constants that
    they use. If not, it was assembled from another module.
    """
    module, assembled = _COMMENT.sub("", module), _COMMENT.sub("", assembled)
    operations = Counter(_OPERATION.findall(module))
    if operations != Counter(name.lower() for name in _INSTRUCTION.findall(assembled)):
        return False
    return _constants(module) <= {_magnitude(text) for text in _NUMBER.findall(assembled)}


def _constants(module: str) -> set[str]:
    used = {name for line in _USE.findall(module) for name in _NAME.findall(line)}
    return {_magnitude(text) for name, text in _CONSTANT.findall(module) if name in used}


def _magnitude(text: str) -> str:
    """Return a number as six significant digits if it has a point or an exponent, since assemblers round."""
    return text if text.isdigit() else f"{float(text):.5e}"
