"""Copies of an artifact's files from its last passing replay: later edits are the first evidence.

``OUT/.last_pass`` has a copy of each file and of the program's sources, with its time. A pass copies only files whose
size or time differs from their copy.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from .compiled_files import COMPILED_FILES_NAME, read_compiled_files
from .files import read_source
from .first_sight import Change, sources_of
from .manifest import MANIFEST_NAME
from .records import Artifact

LAST_PASS = ".last_pass"
#: Larger files, data mostly, are not kept.
_LARGEST = 1 << 20
_MOST_LINES = 20_000


@dataclass(frozen=True)
class Edited:
    """Changed lines of a file; ``before`` is the whole file with these lines restored.

    A changed data file is one change without a line.
    """

    change: Change
    before: bytes


def keep(output: Path, artifact: Artifact, begun: float) -> None:
    """Copy the artifact's files after a passing replay that began at ``begun``; files written later are left out."""
    kept = output / LAST_PASS
    with suppress(OSError):
        for name, path in _files(artifact):
            now, copy = path.stat(), kept / _inside(name)
            with suppress(FileNotFoundError):
                there = copy.stat()
                if (there.st_size, there.st_mtime_ns) == (now.st_size, now.st_mtime_ns):
                    continue
            if now.st_size <= _LARGEST and now.st_mtime < begun:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)


def copies(output: Path, artifact: Artifact) -> dict[str, Path]:
    """Return the copies of changed files: by path in the artifact, or by full path for the program's sources."""
    changed = {}
    for name, path in _files(artifact):
        copy = output / LAST_PASS / _inside(name)
        with suppress(OSError):
            if copy.is_file() and copy.read_bytes() != path.read_bytes():
                changed[name] = copy
    return changed


def edits(artifact: Artifact, changed: dict[str, Path]) -> Iterator[Edited]:
    """Yield the edits to files with ``copies``, hunk by hunk."""
    for name, copy in changed.items():
        if name.startswith("data/"):
            yield Edited(Change(name, 0), copy.read_bytes())
            continue
        old, new = (read_source(path).splitlines(keepends=True) for path in (copy, artifact.root / name))
        if max(len(old), len(new)) > _MOST_LINES:
            continue
        for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag != "equal":
                line = min(c, max(len(new) - 1, 0)) + 1
                change = Change(name, line, "".join(old[a:b]).strip(), "".join(new[c:d]).strip())
                yield Edited(change, "".join([*new[:c], *old[a:b], *new[d:]]).encode())


def compiled_ones(artifact: Artifact) -> list[Path]:
    """Return the files of an artifact that a compiler writes for a program: sources, manifest, reference."""
    more = (artifact.root / MANIFEST_NAME, artifact.root / "golden.py")
    return [*sources_of(artifact), *(path for path in more if path.is_file())]


def _files(artifact: Artifact) -> Iterator[tuple[str, Path]]:
    root = artifact.root
    paths = compiled_ones(artifact)
    for part in ("data/in", "data/out"):
        with suppress(OSError):
            paths += sorted(Path(entry) for entry in os.scandir(root / part) if entry.name.endswith(".pt"))
    yield from ((path.relative_to(root).as_posix(), path) for path in paths)
    document = read_compiled_files(root / COMPILED_FILES_NAME)
    for source in document.sources if document else ():
        if Path(source).is_file():
            yield str(Path(source).resolve()), Path(source)


def _inside(name: str) -> str:
    """Return the path of a file's copy; a file outside of the artifact is copied below ``program``."""
    return f"program{name}" if Path(name).is_absolute() else name
