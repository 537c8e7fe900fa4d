"""Writes a pack: digests first, then every content once, in one pass over the files."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import msgspec
import zstandard

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import replace_file
from pypto_build.diagnose.console import progress
from pypto_build.diagnose.pack.form import MANIFEST, OBJECTS, WINDOW_BITS, File, Pack

_LEVEL = 9
_BLOCK = 1 << 20


def digested(tree: Mapping[str, Path]) -> tuple[File, ...]:
    """The files with digest and size, in the order of their paths."""
    names = sorted(tree)
    return tuple(File(name, *_digest(tree[name])) for name in progress(names, "reading", len(names)))


def _digest(path: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size


def write_pack(path: Path, pack: Pack, tree: Mapping[str, Path]) -> int:
    """Write the archive; returns its size. Raises if a file has changed since its digest was taken."""
    sources = {file.sha256: tree[file.path] for file in reversed(pack.files)}
    parameters = zstandard.ZstdCompressionParameters.from_level(
        _LEVEL, window_log=WINDOW_BITS - 3, write_checksum=True, threads=0
    )
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    manifest = msgspec.json.format(msgspec.json.encode(pack, order="sorted"), indent=1) + b"\n"
    with (
        replace_file(path) as file,
        compressor.stream_writer(file, closefd=False) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT) as archive,
    ):
        archive.addfile(_entry(MANIFEST, len(manifest)), io.BytesIO(manifest))
        for digest, size in progress(pack.objects.items(), "packing", len(pack.objects)):
            with sources[digest].open("rb") as content:
                checked = _Checked(content)
                archive.addfile(_entry(OBJECTS + digest, size), checked)
            if checked.digest.hexdigest() != digest:
                raise ArtifactError(sources[digest], "changed while it was packed", "pack again")
    return path.stat().st_size


class _Checked(io.RawIOBase):
    """A file that takes the digest of what is read of it."""

    def __init__(self, file: io.BufferedReader) -> None:
        super().__init__()
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    return entry
