"""Evaluated manifests, kept in the store of results: evaluating one with a thousand kernels takes 0.1 s.

The key is the manifest's text and path, and the evaluator's own code. If this process was forked from one that has read
the same text, it has the whole manifest already. It then only checks that the files are still there.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import pypto_build.artifact
from pypto_build.artifact import ArgDirection
from pypto_build.artifact.records import Manifest
from pypto_build.proof.looking import Looker, Paths, differing
from pypto_build.proof.store import Store

# Bytes of a manifest from which on it is worth looking.
_WORTH = 1 << 14
_EVALUATOR = ("manifest_eval.py", "records.py")
_READ = ("KERNELS", "ORCHESTRATION", "RUNTIME_CONFIG", "CALLABLE")
_DIRECTION = 1
# Under this a manifest that was read is kept: by its path, and the root of its artifact.
_READ_FROM = "manifest {} of {}"


class _Checked:
    """A manifest that was read from a text.

    All its files were regular files, not links. This is checked again on use, for all files at once.
    """

    def __init__(self, text: str, manifest: Manifest) -> None:
        self.text, self.manifest = text, manifest
        paths = [str(manifest.orchestration.source), *(str(kernel.source) for kernel in manifest.kernels)]
        self._files, self._said = Paths(paths, follow=False), b""
        self._directories = _real(paths)

    def holds(self, looker: Looker) -> bool:
        """Return True if reading the text again would give the same manifest: every file exists and is not a link."""
        paths, now = self._files.paths, looker.look(self._files)
        others = differing(self._said, now) if self._said else range(len(paths))
        if _real(paths) != self._directories or not all(_is_file(paths[number]) for number in others):
            return False
        self._said = now
        return True


class EvaluatedManifests:
    """The manifests in ``store``, and those that were ``read`` in this process or its parents.

    ``looker`` reads the metadata of their files.
    """

    def __init__(self, store: Store, read: dict[str, object] | None = None, looker: Looker | None = None) -> None:
        self._store, self._read, self._looker = store, {} if read is None else read, looker or Looker()

    def checked(self, path: Path, root: Path, text: str) -> Manifest | None:
        """Return the manifest that was read from this text, if its files are unchanged in place."""
        recorded = self._read.get(_READ_FROM.format(path, root))
        same = isinstance(recorded, _Checked) and recorded.text == text and recorded.holds(self._looker)
        return recorded.manifest if isinstance(recorded, _Checked) and same else None

    def keep_checked(self, path: Path, root: Path, text: str, names: dict[str, Any], manifest: Manifest) -> None:
        """Remember a manifest that was read from a text with these module globals, if it names plain files below the
        root.
        """
        kernels = manifest.kernels
        if len(text) < _WORTH or any(kernel.external or kernel.extra_include_dirs for kernel in kernels):
            return
        if manifest.orchestration.external or not all(_is_below(value, root) for value in _sources(names)):
            return
        self._read[_READ_FROM.format(path, root)] = _Checked(text, manifest)

    def look(self) -> None:
        """Check the files of cached manifests, for processes that are forked from this one."""
        for recorded in self._read.values():
            if isinstance(recorded, _Checked):
                recorded.holds(self._looker)

    def find(self, path: Path, text: str) -> dict[str, Any] | None:
        """Return the module globals of a manifest, without lines; None if they are not known."""
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


def _real(paths: Sequence[str]) -> list[str]:
    """Return the directories of these files, with links resolved."""
    return list(map(os.path.realpath, dict.fromkeys(map(os.path.dirname, paths))))


def _sources(names: dict[str, Any]) -> Iterator[object]:
    """Yield the source of each unit in a manifest, as the manifest has it."""
    callable_ = names.get("CALLABLE", {})
    for entry in (
        names.get("ORCHESTRATION", callable_.get("orchestration")),
        *names.get("KERNELS", callable_.get("incores")),
    ):
        yield entry.get("source")


def _is_below(path: object, root: Path) -> bool:
    """Return True if a path lies below the root, and no search is needed to find it."""
    return isinstance(path, str) and (not path.startswith("/") or path.startswith(f"{root}/"))


def _is_file(path: str) -> bool:
    """Return True for a regular file that is no link."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _key(path: Path, text: str) -> str:
    return hashlib.sha256(f"{_code()}\0{path}\0{text}".encode(errors="surrogateescape")).hexdigest()


@cache
def _code() -> str:
    """Return a digest of the code that evaluates."""
    directory = Path(pypto_build.artifact.__file__).parent
    digest = hashlib.sha256(sys.version.encode())
    for name in _EVALUATOR:
        digest.update((directory / name).read_bytes())
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    """Return a value in types that can be serialized: paths become texts, directions are marked."""
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
