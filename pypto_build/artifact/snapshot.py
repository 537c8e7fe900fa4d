"""The data an artifact is replayed on: ``data/in/<name>.pt`` and the golden ``data/out/<name>.pt``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from .errors import ArtifactError
from .files import check_size
from .records import Artifact

DATA_DIR = "data"
REFERENCE = "reference"
GOLDEN_NAME = "golden.py"
#: Bytes that a ``golden.py`` may have.
LARGEST_GOLDEN = 16 << 20


class Snapshot(msgspec.Struct, frozen=True):
    """Files by parameter name. ``root`` is the directory with ``in/`` and ``out/``; either may be missing."""

    root: Path
    inputs: dict[str, Path]
    outputs: dict[str, Path]


def snapshot(artifact: Artifact | Path, data_dir: str | Path | None = None, golden: Path | None = None) -> Snapshot:
    """Return the snapshot of ``artifact`` (an `Artifact` or a directory): its own ``data/``, else ``data_dir``
    (``DATA=``).

    ``data_dir`` is a directory with ``in/`` and ``out/``, either of those two, or a directory with ``data/`` (another
    artifact). ``golden``, if given, supplies the goldens from its ``out/``. Raises a usage error for other directories.
    """
    own = artifact if isinstance(artifact, Path) else artifact.root
    root = own / DATA_DIR if data_dir is None else _data_root(data_dir)
    return Snapshot(root, _pt_files(root / "in"), _pt_files(goldens_in(golden) if golden else root / "out"))


def goldens_in(directory: Path) -> Path:
    """Return the directory with a ``.pt`` file for each output: ``out/`` of a data directory, else the directory
    itself.
    """
    return directory / "out" if (directory / "out").is_dir() else directory


def is_reference(data: str | Path | None, base: Path = Path()) -> bool:
    """Return whether ``DATA=`` requests goldens by the PyTorch reference; an existing directory of that name is data.

    Relative paths begin at ``base``.
    """
    return str(data) == REFERENCE and not (base / REFERENCE).exists()


def missing_goldens(data: Snapshot, outputs: Iterable[str]) -> tuple[str, ...]:
    """Return the ``outputs`` that have no golden although others have one; empty for a snapshot without goldens."""
    return tuple(name for name in outputs if name not in data.outputs) if data.outputs else ()


def require_goldens(data: Snapshot, outputs: Iterable[str]) -> None:
    """Raise a golden error naming the outputs whose golden is missing (see `missing_goldens`)."""
    missing = missing_goldens(data, outputs)
    if missing:
        names = ", ".join(missing)
        raise ArtifactError(
            data.root / "out" / f"{missing[0]}.pt",
            f"the golden is missing for output {names}",
            f"save the golden there, or remove the directory {data.root / 'out'} to run without comparison",
            kind="golden_error",
        )


def _data_root(data_dir: str | Path) -> Path:
    directory = Path(os.path.abspath(Path(data_dir).expanduser()))
    if not directory.is_dir():
        raise ArtifactError(f"DATA={data_dir}", "no such directory", "give a directory that contains in/ and out/")
    for root in (directory, directory / DATA_DIR, directory.parent if directory.name in ("in", "out") else directory):
        if (root / "in").is_dir() or (root / "out").is_dir():
            return root
    raise ArtifactError(f"DATA={data_dir}", "holds neither in/ nor out/", "give a directory that contains in/ and out/")


def find_golden(artifact: Path) -> Path | None:
    """Return the path of the artifact's ``golden.py``, or None. Raises a usage error if it is too large."""
    path = artifact / GOLDEN_NAME
    if not path.is_file():
        return None
    check_size(path, path.stat().st_size, LARGEST_GOLDEN)
    return path


def _pt_files(directory: Path) -> dict[str, Path]:
    """Return the files of a directory by their names. Raises a usage error for a file larger than memory."""
    files = {path.stem: path for path in sorted(directory.glob("*.pt")) if path.is_file()}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in files.values():
        check_size(path, path.stat().st_size, memory)
    return files
