"""The artifact as of its first build here, from which later edits are recognized.

``OUT/.first_sight`` keeps the texts of sources and modules, compressed, and digests of the data. It belongs to the
manifest's time: a compiler that writes the artifact anew writes the manifest too, and the record is made again.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

import msgspec

from .files import decode_json, map_file, read_bytes, read_source, write_bytes
from .manifest import MANIFEST_NAME
from .records import Artifact

FIRST_SIGHT = ".first_sight"
#: Larger files are not kept: the first build pays for them.
_LARGEST_TEXT, _LARGEST_DATA, _LARGEST = 1 << 20, 64 << 20, 32 << 20
#: Lines of a text beyond which it is not compared: aligning takes the square of them.
_MOST_LINES = 20_000


class _Sight(msgspec.Struct, frozen=True):
    """Texts and digests of files, by path within the artifact."""

    texts: dict[str, str]
    data: dict[str, str]


@dataclass(frozen=True)
class Change:
    """A changed line: `old` or `new` is empty for an added or removed line. For data, `line` is 0."""

    path: str
    line: int
    old: str = ""
    new: str = ""

    @property
    def words(self) -> str:
        """Return the change as ``kernels/aiv/k.cpp:12: old -> new``."""
        if not self.line:
            return f"{self.path} holds something else"
        return f"{self.path}:{self.line}: {self.old or '(nothing)'}  ->  {self.new or '(nothing)'}"


def remember(output: Path, artifact: Artifact) -> None:
    """Keep the artifact's first state, unless one is kept already. Errors of writing are ignored."""
    record, manifest = output / FIRST_SIGHT, artifact.root / MANIFEST_NAME
    with suppress(OSError):
        written = manifest.stat().st_mtime_ns
        if record.exists() and record.stat().st_mtime_ns == written:
            return
        texts = {}
        for path in sources_of(artifact):
            if path.is_file() and path.stat().st_size <= _LARGEST_TEXT:
                texts[path.relative_to(artifact.root).as_posix()] = read_source(path)
        data = {path.relative_to(artifact.root).as_posix(): _digest(path) for path in _data(artifact.root)}
        packed = gzip.compress(msgspec.json.encode(_Sight(texts, data)), 1, mtime=0)
        if len(packed) <= _LARGEST:
            write_bytes(record, packed)
            os.utime(record, ns=(written, written))


def changes(output: Path, artifact: Artifact) -> list[Change]:
    """Return the edits since the first build: orchestration first, then modules, kernels, data; empty without a
    record.
    """
    sight = _read(output / FIRST_SIGHT)
    if sight is None:
        return []
    edits: list[Change] = []
    for path in sources_of(artifact):
        name = path.relative_to(artifact.root).as_posix()
        if name in sight.texts and path.is_file():
            edits += between(name, sight.texts[name].splitlines(), read_source(path).splitlines())
    for path in _data(artifact.root):
        name = path.relative_to(artifact.root).as_posix()
        if name in sight.data and sight.data[name] != _digest(path):
            edits.append(Change(name, 0))
    return edits


def first_text(output: Path, name: str) -> str | None:
    """Return the first text of a source, named by its path within the artifact."""
    sight = _read(output / FIRST_SIGHT)
    return sight.texts.get(name) if sight is not None else None


def between(path: str, before: list[str], after: list[str]) -> Iterator[Change]:
    """Yield a change for each run of differing lines, at the first line of the run."""
    if before == after or max(len(before), len(after)) > _MOST_LINES:
        return
    for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        old, new = before[a].strip() if a < b else "", after[c].strip() if c < d else ""
        if tag != "equal" and old != new:  # else blanks
            yield Change(path, min(c, max(len(after) - 1, 0)) + 1, old, new)


def sources_of(artifact: Artifact) -> list[Path]:
    """Return the orchestration, modules and kernels that lie in the artifact."""
    modules = sorted((artifact.root / "ptoas").glob("*.pto"))
    kernels = [kernel.source for kernel in artifact.kernels]
    own = [artifact.orchestration.source, *modules, *kernels]
    return [path for path in dict.fromkeys(own) if path.is_relative_to(artifact.root)]


def _data(root: Path) -> list[Path]:
    return sorted((root / "data").glob("*/*.pt"))


def _digest(path: Path) -> str:
    """Return the digest of a file's content; for a large file, its size."""
    try:
        size = path.stat().st_size
        return f"{size} bytes" if size > _LARGEST_DATA else hashlib.sha256(map_file(path)).hexdigest()
    except OSError:
        return ""


def _read(path: Path) -> _Sight | None:
    """Return the record; None for any other file."""
    try:
        unpacker = zlib.decompressobj(wbits=31)
        text = unpacker.decompress(read_bytes(path, _LARGEST), 8 * _LARGEST)
        return decode_json(text, _Sight) if unpacker.eof else None
    except (OSError, zlib.error, msgspec.MsgspecError):
        return None
