"""Writes an artifact: only what changed, all of it or nothing, the manifest last."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from pypto_build.artifact.atomic import write_bytes
from pypto_build.artifact.scene_test import SCENE_TEST_NAME, is_edited

FILES_NAME = "compiled_files.json"


def files_text(program: str, sources: list[str], files: Mapping[str, str]) -> str:
    """The list of an artifact's generated files, of the Python files they were made from, and its references' digests,
    by which it is known when there is a golden to compute."""
    goldens = {path: text for path, text in files.items() if Path(path).name == "golden.py" and text}
    digests = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in sorted(goldens.items())}
    document = {"schema": 1, "program": program, "sources": sorted(sources), "files": sorted(files), "goldens": digests}
    return json.dumps(document, indent=2) + "\n"


def write_files(root: Path, files: dict[str, str]) -> list[str]:
    """Make `root` hold these files and none that an earlier run wrote besides; returns the paths that changed.

    Everything is written under temporary names first, so an error leaves what was there.
    """
    stale = forget(root, files)
    changed = [path for path, text in files.items() if _read(root / path) != text and not _is_users(root / path)]
    changed.sort(key=lambda path: (path in ("kernel_config.py", FILES_NAME), path))
    staged: list[tuple[Path, Path]] = []
    try:
        for path in changed:
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
            staged.append((temporary, target))
            temporary.write_text(files[path], encoding="utf-8")
        for temporary, target in staged:
            temporary.replace(target)
    except BaseException:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)
        raise
    for path in stale:
        with suppress(OSError):
            (root / path).unlink()
    settle_order(root, changed)
    return changed


def write_dumps(root: Path, dumps: Mapping[str, str]) -> None:
    """Leave the dumps of a compilation that failed, and none of passes it did not come to; all else stays."""
    for directory in {(root / path).parent for path in dumps}:
        for stale in directory.glob("[0-9][0-9]_*.txt"):
            stale.unlink()
    for path, text in dumps.items():
        write_bytes(root / path, text.encode())


def forget(root: Path, files: Iterable[str]) -> list[str]:
    """What an earlier run wrote and this one does not."""
    return sorted(_recorded(root) - set(files))


def settle_order(root: Path, changed: Iterable[str]) -> None:
    """PyPTO takes a module for edited that is newer than what was assembled from it, so that is made the newer one."""
    for path in changed:
        assembled = (root / path).with_suffix(".cpp")
        if path.endswith(".pto") and assembled.exists():
            os.utime(assembled)


def _is_users(path: Path) -> bool:
    """Whether this is a scene test that somebody changed."""
    return path.name == SCENE_TEST_NAME and is_edited(_read(path) or "") if path.exists() else False


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _recorded(root: Path) -> set[str]:
    """Files an earlier run wrote; paths that lead out of the directory are not ours."""
    try:
        listed = json.loads((root / FILES_NAME).read_text(encoding="utf-8"))["files"]
        return {p for p in listed if isinstance(p, str) and ".." not in Path(p).parts and not Path(p).is_absolute()}
    except (OSError, ValueError, KeyError, TypeError):
        return set()
