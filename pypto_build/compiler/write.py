"""Writes an artifact atomically: only changed files, the manifest last."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from pypto_build.artifact.compiled_files import (
    COMPILED_FILES_NAME,
    CompiledFiles,
    encode_compiled_files,
    read_compiled_files,
)
from pypto_build.artifact.files import remove_temporary, write_bytes
from pypto_build.artifact.scene_test import SCENE_TEST_NAME, is_edited

#: The file that marks an artifact as complete; it is written last.
_LAST = (COMPILED_FILES_NAME, "kernel_config.py")


def files_document(program: str, sources: list[str], files: Mapping[str, str | bytes]) -> bytes:
    """Return the document of an artifact's files: generated files with their digests, and Python sources."""
    digests = {path: hashlib.sha256(_encoded(content)).hexdigest() for path, content in sorted(files.items())}
    names = tuple(sorted([*files, COMPILED_FILES_NAME]))
    return encode_compiled_files(CompiledFiles(1, program, tuple(sorted(sources)), names, digests))


def write_files(root: Path, files: Mapping[str, str | bytes]) -> list[str]:
    """Make `root` hold these files, and remove other files of an earlier run; return the paths that changed.

    Everything is written under temporary names first, so an error leaves the old files unchanged. A kill may leave
    temporary files, which the next run removes.
    """
    remove_temporary(root)
    earlier = read_compiled_files(root / COMPILED_FILES_NAME)
    stale = sorted(set(earlier.files) - set(files)) if earlier else []
    encoded = {path: _encoded(content) for path, content in files.items()}
    changed = [path for path, data in encoded.items() if _read(root / path) != data and not _is_users(root / path)]
    changed.sort(key=lambda path: (path.endswith(_LAST), path))
    staged: list[tuple[Path, Path]] = []
    try:
        for path in changed:
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
            staged.append((temporary, target))
            temporary.write_bytes(encoded[path])
        for temporary, target in staged:
            temporary.replace(target)
    except BaseException:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)
        raise
    for path in stale:
        with suppress(OSError):
            (root / path).unlink()
    _settle_order(root, changed)
    return changed


def write_dumps(root: Path, dumps: Mapping[str, str]) -> None:
    """Write the dumps of a failed compilation, and remove older dumps of later passes. Other files stay."""
    for directory in {(root / path).parent for path in dumps}:
        for stale in directory.glob("[0-9][0-9]_*.py"):
            stale.unlink()
    for path, text in dumps.items():
        write_bytes(root / path, text.encode())


def _settle_order(root: Path, changed: Iterable[str]) -> None:
    """Set the time of assembled C++ after that of its module: PyPTO takes a module for edited if it is newer."""
    for path in changed:
        assembled = (root / path).with_suffix(".cpp")
        if path.endswith(".pto") and assembled.exists():
            os.utime(assembled)


def _is_users(path: Path) -> bool:
    """Return whether a file is a scene test that the user edited."""
    if path.name != SCENE_TEST_NAME:
        return False
    present = _read(path)
    return present is not None and is_edited(present.decode(errors="replace"))


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _encoded(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
