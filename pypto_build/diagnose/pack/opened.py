"""An archive where an artifact is expected: unpacked once below the build directory, with the options of its run."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import msgspec
import zstandard

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import decode_json, file_digest, open_file, write_bytes
from pypto_build.artifact.layout import CHILDREN_DIR, DRIVER, SUB_WORKERS
from pypto_build.artifact.manifest import MANIFEST_NAME
from pypto_build.artifact.snapshot import REFERENCE
from pypto_build.diagnose.console import progress
from pypto_build.diagnose.repeat import PASSED_ON
from pypto_build.replay.verdict import Status

# Format of a packed run: a tar archive, compressed by zstd.
# It holds `pack.json`, then `objects/<sha256>`, with each content once.
# `pack.json` maps the paths of a tree (`artifact/<name>/...`, `data/...`, `external/...`) to objects. Nothing in it
# depends on the time, so that the same run packed twice gives the same bytes.

SCHEMA = 1
SUFFIX = ".tar.zst"
MANIFEST = "pack.json"
OBJECTS = "objects/"
ARTIFACT, DATA, EXTERNAL = "artifact", "data", "external"

#: More than any list of files needs; an archive that says otherwise is no pack.
MANIFEST_LIMIT = 64 << 20
#: The zstd window, in bits: what unpacking may take of memory.
WINDOW_BITS = 27

#: Characters of a path, so that one below a directory is no longer than any system takes, and bytes of its parts.
_LONGEST_PATH, _LONGEST_NAME = 2000, 255
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*\Z")


class File(msgspec.Struct, frozen=True):
    """One file of the tree: its path there, its content's digest and size in bytes."""

    path: str
    sha256: str
    size: int


class Pack(msgspec.Struct, frozen=True):
    """A packed run. ``options`` are the options of the run, and ``status`` is its result.

    ``external`` maps paths outside of the artifact, as its manifest names them, to paths in the tree.
    """

    artifact: str
    platform: str
    options: dict[str, str]
    files: tuple[File, ...]
    status: Status = "unchecked"
    own_data: bool = True
    external: dict[str, str] = {}
    environment: tuple[tuple[str, str], ...] = ()
    version: str = ""
    schema: int = SCHEMA

    @property
    def root(self) -> str:
        """Return the path of the artifact inside the pack."""
        return f"{ARTIFACT}/{self.artifact}"

    @property
    def is_artifact(self) -> bool:
        """Return whether the pack has an artifact's manifest, or a host driver over chip programs."""
        return any(file.path in (f"{self.root}/{MANIFEST_NAME}", f"{self.root}/{DRIVER}") for file in self.files)

    @property
    def manifests(self) -> list[str]:
        """The manifests, and host callables of a scene test, which may name files outside of the artifact."""
        manifest = rf"({CHILDREN_DIR}/[^/]+/)?{re.escape(MANIFEST_NAME)}"
        inside = re.compile(re.escape(self.root) + rf"/({manifest}|{SUB_WORKERS}/[^/]+\.py)\Z")
        return [file.path for file in self.files if inside.match(file.path)]

    @property
    def objects(self) -> dict[str, int]:
        """The contents by digest, with their sizes, in the order of the archive."""
        return {file.sha256: file.size for file in sorted(self.files, key=lambda file: file.sha256)}

    @property
    def size(self) -> int:
        """The bytes of all files, once unpacked."""
        return sum(file.size for file in self.files)


def fault(pack: Pack) -> str:
    """Return why an untrusted pack must not be unpacked, or an empty text if it is sound."""
    if pack.schema != SCHEMA:
        return f"was written by another version (schema {pack.schema}, this one reads {SCHEMA})"
    if not _NAME.match(pack.artifact):
        return f"names the artifact {pack.artifact!r}"
    sizes: dict[str, int] = {}
    for file in pack.files:
        if not _DIGEST.match(file.sha256) or file.size < 0:
            return f"has no digest or size for {file.path!r}"
        if sizes.setdefault(file.sha256, file.size) != file.size:
            return f"gives {file.path!r} another size than the same content elsewhere"
    paths = [file.path for file in pack.files]
    if not pack.is_artifact:
        return f"has no {pack.root}/{MANIFEST_NAME}"
    wrong = next((path for path in [*paths, *pack.external.values()] if not _stays_inside(path)), None)
    if wrong is not None:
        return f"has a file that would lie outside: {wrong!r}"
    if any(len(path) > _LONGEST_PATH or max(map(len, path.encode().split(b"/"))) > _LONGEST_NAME for path in paths):
        return "has a file whose name is too long"
    if len(set(paths)) != len(paths):
        return "has two files of one name"
    above = {str(parent) for path in paths for parent in PurePosixPath(path).parents}
    both = next((path for path in paths if path in above), None)
    return f"has {both!r} as a file and as a directory" if both else ""


def _stays_inside(path: str) -> bool:
    parts = path.split("/")
    plain = all(part not in ("", ".", "..") and "\\" not in part and part.isprintable() for part in parts)
    return plain and len(parts) > 1 and parts[0] in (ARTIFACT, DATA, EXTERNAL)


# Reader of untrusted packs: it writes only inside the directory, and no more than the pack declares.
# It accepts only plain files with the two forms of names that a pack has, in the order of the format. It checks
# every content against its digest before use.

_RECORD = 512
_BLOCK = 1 << 20
_PIECE = 4096  # decompresses to 128 MiB at most
_AGAIN = "ask for the archive again"


class _Stream:
    """The decompressed bytes of an archive. It is read to its end, because zstd's checksum follows the last byte."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self._file = path, file
        self._decoder = zstandard.ZstdDecompressor(max_window_size=1 << WINDOW_BITS).decompressobj()
        self._held = bytearray()

    def wrong(self, message: str) -> ArtifactError:
        return ArtifactError(self.path, message, _AGAIN)

    def read(self, size: int) -> bytes:
        """Exactly ``size`` bytes."""
        parts = []
        while size:
            while not self._held:
                self._decode()
            parts.append(bytes(self._held[:size]))
            del self._held[:size]
            size -= len(parts[-1])
        return b"".join(parts)

    def _decode(self) -> None:
        piece = b"" if self._decoder.eof else self._file.read(_PIECE)
        if not piece:
            raise self.wrong("is truncated")
        try:
            self._held += self._decoder.decompress(piece)
        except (zstandard.ZstdError, OSError) as error:
            raise self.wrong(f"is damaged: {error}") from None

    def finish(self) -> None:
        """Check that only zeros follow the last file, that the checksum is right, and that the archive ends there."""
        while True:
            if any(self._held):
                raise self.wrong("contains files that are not in its list")
            self._held.clear()
            if self._decoder.eof:
                break
            self._decode()
        if self._decoder.unused_data or self._file.read(1):
            raise self.wrong("contains files that are not in its list")

    def entry(self) -> tuple[str, int]:
        """Name and size of the next member; an empty name at the end."""
        head = self.read(_RECORD)
        if not any(head):
            return "", 0
        total = sum(head) - sum(head[148:156]) + 8 * 32
        if _octal(head[148:156]) != total:
            raise self.wrong("does not contain a tar archive")
        name = head[:100].rstrip(b"\0").decode("ascii", "replace")
        if head[156:157] not in (b"0", b"\0"):
            raise self.wrong(f"contains {name!r}, which is not a regular file")
        size = int.from_bytes(head[125:136], "big") if head[124] & 0x80 else _octal(head[124:136])
        if size < 0:
            raise self.wrong(f"contains {name!r} without a size")
        return name, size

    def skip_padding(self, size: int) -> None:
        """To the next member."""
        self.read(-size % _RECORD)


def _octal(field: bytes) -> int:
    try:
        return int(field.rstrip(b"\0 ").decode("ascii") or "0", 8)
    except ValueError:
        return -1


@contextmanager
def _opened(path: Path) -> Iterator[_Stream]:
    try:
        file = open_file(path)
    except OSError as error:
        raise ArtifactError(
            path, f"cannot be read: {error.strerror}", "name an archive written by 'scons pack'"
        ) from None
    with file:
        yield _Stream(path, file)


def _read_manifest(stream: _Stream) -> Pack:
    name, size = stream.entry()
    if name != MANIFEST or size > MANIFEST_LIMIT:
        raise stream.wrong(f"does not start with {MANIFEST}")
    data = stream.read(size)
    stream.skip_padding(size)
    try:
        pack = decode_json(data, Pack)
    except msgspec.MsgspecError as error:
        raise stream.wrong(f"{MANIFEST}: {error}") from None
    wrong = fault(pack)
    if wrong:
        raise stream.wrong(f"{MANIFEST} {wrong}")
    return pack


def read_pack(path: Path) -> Pack:
    """Read the manifest of an archive without unpacking its contents."""
    with _opened(path) as stream:
        return _read_manifest(stream)


def unpack(path: Path, directory: Path) -> Pack:
    """Unpack an archive into ``directory``, which must not exist. The directory appears only when it is complete."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with _opened(path) as stream:
        pack = _read_manifest(stream)
        free = shutil.disk_usage(directory.parent).free
        if pack.size > free:
            needed = f"unpacks to {pack.size >> 20} MiB, {directory.parent} has {free >> 20} MiB free"
            raise ArtifactError(path, needed, "free disk space, or name another directory with BUILD_DIR=")
        staging = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
        try:
            _write_files(stream, pack, staging)
            staging.chmod(0o777 & ~_umask())
            staging.rename(directory)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    return pack


def _write_files(stream: _Stream, pack: Pack, staging: Path) -> None:
    paths: dict[str, list[str]] = {}
    for file in pack.files:
        paths.setdefault(file.sha256, []).append(file.path)
    for digest, size in progress(pack.objects.items(), "unpacking", len(pack.objects)):
        name, actual_size = stream.entry()
        if name != OBJECTS + digest or actual_size != size:
            raise stream.wrong(
                f"has {name!r} ({actual_size} bytes), but {OBJECTS + digest} ({size} bytes) is expected at this point"
            )
        first, *others = (staging / path for path in paths[digest])
        _write_content(stream, first, digest, size)
        for other in others:
            other.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(first, other)
    if stream.entry()[0]:
        raise stream.wrong("contains files that are not in its list")
    stream.finish()


def _write_content(stream: _Stream, path: Path, digest: str, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    digester, left = hashlib.sha256(), size
    with path.open("xb") as file:
        while left:
            block = stream.read(min(left, _BLOCK))
            digester.update(block)
            file.write(block)
            left -= len(block)
    stream.skip_padding(size)
    if digester.hexdigest() != digest:
        raise stream.wrong(f"has wrong content for {path.name}: the digest does not match")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def edited(pack: Pack, directory: Path) -> list[str]:
    """Files of an unpacked archive that are not as they were in it."""
    changed = []
    for file in pack.files:
        path = directory / file.path
        if pack.external and file.path in pack.manifests:
            continue  # names directories of this machine
        try:
            same = path.stat().st_size == file.size and file_digest(path) == file.sha256
        except OSError:
            same = False
        if not same:
            changed.append(file.path)
    return changed


#: Options that a pack may give: those of the run, and what changes the kernels' code.
TAKEN = {*PASSED_ON, "ARCH", "KERNEL_FLAGS"}

_SHOWN = 3


@dataclass(frozen=True)
class Opened:
    """An unpacked run: the path of its artifact, and the SCons options that repeat the run."""

    artifact: Path
    options: dict[str, str]
    pack: Pack
    notes: tuple[str, ...]


def is_pack(path: str) -> bool:
    """Return whether a path names a pack: it has the suffix and is not a directory."""
    return path.endswith(SUFFIX) and not Path(path).is_dir()


def open_pack(path: Path, build_dir: Path) -> Opened:
    """Unpack ``path`` below ``build_dir``, unless it is unpacked already. Files that were edited since stay unchanged,
    and a note names them. Raises ArtifactError for an invalid pack.
    """
    pack = read_pack(path)
    root = (build_dir / "packs" / file_digest(path)[:16]).absolute()
    notes = []
    if root.is_dir():
        changed = edited(pack, root)
        if changed:
            more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
            notes.append(f"edited since, and used as they are: {', '.join(changed[:_SHOWN])}{more}; in {root}")
    else:
        unpack(path, root)
        _write_external(pack, root)
        notes.append(f"unpacked to {root}")
    options = {name: value for name, value in pack.options.items() if name in TAKEN}
    if options.get("DATA", REFERENCE) != REFERENCE:
        del options["DATA"]
    options["PLATFORM"] = pack.platform
    if not pack.own_data:
        options["DATA"] = str(root / DATA)
    return Opened(root / pack.root, options, pack, tuple(notes))


def _write_external(pack: Pack, root: Path) -> None:
    """Let the manifests name files outside of the artifact where they are now."""
    for name in pack.manifests if pack.external else ():
        text = (root / name).read_text(encoding="utf-8")
        for old in sorted(pack.external, key=len, reverse=True):
            text = text.replace(f'"{old}"', f'"{root / pack.external[old]}"')
            text = text.replace(f"'{old}'", f"'{root / pack.external[old]}'")
        write_bytes(root / name, text.encode())
