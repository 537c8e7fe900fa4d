"""The files of an artifact as they were when its replay last passed: what was edited since is the first evidence.

``OUT/.last_pass`` has a copy of each, with its time. A pass copies only what has another size or time than its copy.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

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
    """Changed lines of a file; ``before`` is the whole file with these lines put back.

    A file of data is one change without a line.
    """

    change: Change
    before: bytes


def keep(output: Path, artifact: Artifact, begun: float) -> None:
    """Keep the artifact as it passed in a replay that began at ``begun``; files written since are left out."""
    kept = output / LAST_PASS
    with suppress(OSError):
        for path in _files(artifact):
            now, copy = path.stat(), kept / path.relative_to(artifact.root)
            with suppress(FileNotFoundError):
                there = copy.stat()
                if (there.st_size, there.st_mtime_ns) == (now.st_size, now.st_mtime_ns):
                    continue
            if now.st_size <= _LARGEST and now.st_mtime < begun:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, copy)


def copies(output: Path, artifact: Artifact) -> dict[str, Path]:
    """Return the copies of changed files, by their paths in the artifact."""
    changed = {}
    for path in _files(artifact):
        name = path.relative_to(artifact.root).as_posix()
        copy = output / LAST_PASS / name
        with suppress(OSError):
            if copy.is_file() and copy.read_bytes() != path.read_bytes():
                changed[name] = copy
    return changed


def edits(artifact: Artifact, changed: dict[str, Path]) -> Iterator[Edited]:
    """Return what was edited, hunk by hunk, of files with their ``copies``."""
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


def _files(artifact: Artifact) -> Iterator[Path]:
    root = artifact.root
    yield from sources_of(artifact)
    yield from (path for path in (root / MANIFEST_NAME, root / "golden.py") if path.is_file())
    for part in ("data/in", "data/out"):
        with suppress(OSError):
            yield from sorted(Path(entry) for entry in os.scandir(root / part) if entry.name.endswith(".pt"))
