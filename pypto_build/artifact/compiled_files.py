"""``compiled_files.json`` (schema 1): which files of an artifact were generated, and the Python they were made from."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import msgspec

from .files import decode_json, read_bytes

COMPILED_FILES_NAME = "compiled_files.json"


class CompiledFiles(msgspec.Struct, frozen=True):
    """The document; ``files`` are paths in the artifact, ``goldens`` references there with the digests of their text.

    ``program`` and ``sources`` are the Python files, spelled as the compiler was given them.
    """

    schema: int
    program: str
    sources: tuple[str, ...]
    files: tuple[str, ...]
    goldens: dict[str, str] = {}


def encode_compiled_files(document: CompiledFiles) -> bytes:
    """The bytes of the file, the same for the same document."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def read_compiled_files(path: Path) -> CompiledFiles | None:
    """The document at ``path``; None where there is none that can be read.

    Paths that lead out of the artifact are left out: files of these names are read, replaced and removed.
    """
    try:
        document = decode_json(read_bytes(path), CompiledFiles)
    except (OSError, msgspec.DecodeError):
        return None
    goldens = {name: digest for name, digest in document.goldens.items() if _is_inside(name)}
    return msgspec.structs.replace(document, files=tuple(filter(_is_inside, document.files)), goldens=goldens)


def program_of(artifact: Path) -> Path | None:
    """The program that an artifact names as its own, if it is still there."""
    document = read_compiled_files(artifact / COMPILED_FILES_NAME)
    if document is None:
        return None
    named = Path(document.program)
    paths = (named, artifact / named, *(parent / named for parent in artifact.resolve().parents))
    return next((path for path in paths if path.is_file()), None)


def _is_inside(name: str) -> bool:
    return ".." not in PurePosixPath(name).parts and not PurePosixPath(name).is_absolute()
