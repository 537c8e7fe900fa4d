"""Format of a packed run: a tar archive, compressed by zstd.

It holds `pack.json`, then `objects/<sha256>`, with each content once.

`pack.json` maps the paths of a tree (`artifact/<name>/...`, `data/...`, `external/...`) to objects. Nothing in it
depends on the time, so that the same run packed twice gives the same bytes.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import msgspec

from pypto_build.artifact.layout import CHILDREN_DIR, DRIVER, SUB_WORKERS
from pypto_build.artifact.manifest import MANIFEST_NAME
from pypto_build.replay.verdict import Status

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
    """A packed run.

    ``options`` are what the run was given, as SCons takes them; ``status`` is how it ended. ``external`` maps paths
    outside, as the manifest of the artifact may name them, to paths in the tree.
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
