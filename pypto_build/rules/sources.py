"""Digests of this project's own sources: a newer tool makes older results stale."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


@cache
def tool_digest(package: str) -> str:
    """A digest over the Python files of ``pypto_build.<package>``."""
    digest = hashlib.sha256()
    for path in sorted((_PACKAGE / package).rglob("*.py")):
        digest.update(f"{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()
