"""Digests of files that may be larger than memory."""

from __future__ import annotations

import hashlib
from pathlib import Path

from .files import open_file

_PIECE = 1 << 20


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    digest = hashlib.sha256()
    with open_file(path) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
