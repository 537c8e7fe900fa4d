"""Records of an artifact's generated files: ``compiled_files.json`` (schema 1), ``data/golden.json`` (schema 2)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import msgspec

from .files import decode_json, read_bytes

COMPILED_FILES_NAME = "compiled_files.json"
GOLDEN_NAME, GOLDEN_RECORD = "golden.py", "data/golden.json"
_DATA_FILE = re.compile(r"data/(in|out)/[^/\0]+\.pt\Z")


class CompiledFiles(msgspec.Struct, frozen=True):
    """The document.

    ``files`` are paths in the artifact; ``digests`` has the digest of each file except this document. ``program`` and
    ``sources`` are the Python files, spelled as the compiler was given them.
    """

    schema: int
    program: str
    sources: tuple[str, ...]
    files: tuple[str, ...]
    digests: dict[str, str] = {}

    @property
    def references(self) -> list[PurePosixPath]:
        """The directories in the artifact that have a reference."""
        return [path.parent for path in map(PurePosixPath, self.digests) if path.name == GOLDEN_NAME]


class ComputedData(msgspec.Struct, frozen=True):
    """The document about data that a reference computed: digests of ``golden.py`` and of all files.

    ``made`` are the files that the tool wrote; None in old documents, where it wrote all of them.
    """

    golden: str
    files: dict[str, str]
    made: dict[str, str] | None = None

    @property
    def written(self) -> dict[str, str]:
        """Return the files that the tool wrote, with digests; the other inputs are the user's."""
        return self.files if self.made is None else self.made


def encode_compiled_files(document: CompiledFiles) -> bytes:
    """Return the bytes of the file, the same for the same document."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def read_compiled_files(path: Path) -> CompiledFiles | None:
    """Return the document at ``path``; None if it is missing or unreadable.

    Paths that lead out of the artifact are dropped, because files of these names are read, replaced and removed.
    """
    try:
        document = decode_json(read_bytes(path), CompiledFiles)
    except (OSError, msgspec.DecodeError):
        return None
    digests = {name: digest for name, digest in document.digests.items() if _is_inside(name)}
    return msgspec.structs.replace(document, files=tuple(filter(_is_inside, document.files)), digests=digests)


def read_computed_data(root: Path) -> ComputedData:
    """Return the document about the data in ``root``; an empty document if it is missing or unreadable."""
    try:
        document = decode_json(read_bytes(root / GOLDEN_RECORD), ComputedData)
    except (OSError, msgspec.MsgspecError):
        return ComputedData("", {})
    if all(map(_DATA_FILE.match, (*document.files, *document.written))):
        return document
    return ComputedData("", {})  # files of these names are removed


def digest_of(path: Path) -> str:
    """Return the digest that the documents record for a file of any size."""
    return hashlib.sha256(read_bytes(path, 1 << 40)).hexdigest()


def generated_files(artifact: Path) -> tuple[list[Path], list[Path]]:
    """Return the files in ``artifact`` that compiler and references wrote: first the unchanged files, documents
    last; then the edited files.
    """
    document = read_compiled_files(artifact / COMPILED_FILES_NAME)
    if document is None:
        return [], []
    written: list[Path] = []
    edited: list[Path] = []
    records: list[Path] = []
    digests: dict[Path, str] = {artifact / name: digest for name, digest in document.digests.items()}
    for root in (artifact / reference for reference in document.references):
        digests |= {root / name: digest for name, digest in read_computed_data(root).written.items()}
        records.append(root / GOLDEN_RECORD)
    for path, digest in digests.items():
        if path.is_file():
            (written if digest_of(path) == digest else edited).append(path)
    records = [path for path in (*records, artifact / COMPILED_FILES_NAME) if path.is_file()]
    return [*written, *records], edited


def are_as_recorded(root: Path, digests: Mapping[str, str]) -> bool:
    """Return whether every file exists and has its recorded digest."""
    try:
        return all((root / name).is_file() and digest_of(root / name) == digest for name, digest in digests.items())
    except OSError:
        return False


def program_of(artifact: Path) -> Path | None:
    """Return the Python program that an artifact was compiled from, if that file still exists."""
    document = read_compiled_files(artifact / COMPILED_FILES_NAME)
    if document is None:
        return None
    named = Path(document.program)
    paths = (named, artifact / named, *(parent / named for parent in artifact.resolve().parents))
    return next((path for path in paths if path.is_file()), None)


def _is_inside(name: str) -> bool:
    return ".." not in PurePosixPath(name).parts and not PurePosixPath(name).is_absolute()
