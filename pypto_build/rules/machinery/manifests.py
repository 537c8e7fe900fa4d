"""What large manifests evaluate to, in the store of results: evaluating one of a thousand kernels takes 0.1 s.

The key is the manifest's text and path, and the evaluator's own code.
"""

from __future__ import annotations

import hashlib
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import pypto_build.artifact
from pypto_build.artifact import ArgDirection
from pypto_build.proof.store import Store

# Bytes of a manifest from which on it is worth looking.
_WORTH = 1 << 14
_EVALUATOR = ("manifest_eval.py", "manifest_values.py", "records.py")
_READ = ("KERNELS", "ORCHESTRATION", "RUNTIME_CONFIG", "CALLABLE")
_DIRECTION = 1


class EvaluatedManifests:
    """The manifests that ``store`` knows."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, path: Path, text: str) -> dict[str, Any] | None:
        """The module globals of a manifest, without lines; None if they are not known."""
        if len(text) < _WORTH:
            return None
        for payload in self._store.find(_key(path, text)):
            with suppress(ValueError, RecursionError):
                return msgspec.msgpack.decode(payload, type=dict[str, Any], ext_hook=_direction)
        return None

    def keep(self, path: Path, text: str, names: dict[str, Any]) -> None:
        """Remember the module globals of a manifest."""
        if len(text) < _WORTH:
            return
        with suppress(ValueError, OverflowError, RecursionError):  # a number that no manifest has
            read = {name: _plain(names[name]) for name in _READ if name in names}
            self._store.publish(_key(path, text), msgspec.msgpack.encode(read), ())


def _key(path: Path, text: str) -> str:
    return hashlib.sha256(f"{_code()}\0{path}\0{text}".encode(errors="surrogateescape")).hexdigest()


@cache
def _code() -> str:
    """The code that evaluates."""
    place = Path(pypto_build.artifact.__file__).parent
    digest = hashlib.sha256(sys.version.encode())
    for name in _EVALUATOR:
        digest.update((place / name).read_bytes())
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """A value in the types that can be written: paths are texts, directions are marked."""
    if isinstance(value, ArgDirection):
        return msgspec.msgpack.Ext(_DIRECTION, bytes([value]))
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_plain, value))
    return str(value) if isinstance(value, str) else value


def _direction(code: int, data: memoryview) -> ArgDirection:
    if code != _DIRECTION:
        raise ValueError(code)
    return ArgDirection(data[0])
