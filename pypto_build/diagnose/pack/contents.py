"""Selection of the files of a run that its pack holds, and their paths in the pack."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from pypto_build.artifact import Artifact, ArtifactError
from pypto_build.artifact.layout import CHILDREN_DIR
from pypto_build.artifact.paths import way_to
from pypto_build.artifact.snapshot import DATA_DIR, Snapshot
from pypto_build.diagnose.pack.form import ARTIFACT, DATA, EXTERNAL

#: Made again from the rest, or by a run.
_LEFT_OUT = {"__pycache__", "cache", "dfx_outputs", "actual"}
_BINARIES = (".o", ".so", ".bin", ".pyc", ".bak", ".tmp", ".lock")
_HEADERS = (".h", ".hpp", ".hh", ".inc", ".inl", ".cuh")


def tree_of(artifact: Artifact, data: Snapshot | None, linked: Iterable[Path] = ()) -> dict[str, Path]:
    """The files of a pack by their path in it. ``data`` are those of another directory than the artifact's own,
    ``linked`` its chip programs that lie elsewhere, since it has them in common with others."""
    root, programs = f"{ARTIFACT}/{artifact.name}", list(linked)
    links = [artifact.root / CHILDREN_DIR / program.name for program in programs]
    tree = {f"{root}/{name}": path for name, path in _artifact_files(artifact.root, data is None, links)}
    for program in programs:
        place = f"{root}/{CHILDREN_DIR}/{program.name}"
        tree |= {f"{place}/{name}": path for name, path in _artifact_files(program, own_data=True)}
    if data is not None:
        tree |= {f"{DATA}/in/{name}.pt": path for name, path in data.inputs.items()}
        tree |= {f"{DATA}/out/{name}.pt": path for name, path in data.outputs.items()}
    return tree


def _artifact_files(root: Path, own_data: bool, others: Collection[Path] = ()) -> Iterator[tuple[str, Path]]:
    real = root.resolve()
    for directory, names, files in os.walk(root, followlinks=True):
        here = Path(directory)
        top = here == root
        names[:] = sorted(
            name
            for name in names
            if name not in _LEFT_OUT and not name.startswith(".") and (own_data or not top or name != DATA_DIR)
            if here / name not in others
        )
        for name in names:
            if (here / name).is_symlink():
                _inside(here / name, real, root)
        for name in sorted(files):
            path = here / name
            if name.endswith(_BINARIES) or name.startswith(".") or not path.is_file():
                continue
            _inside(path, real, root)
            yield path.relative_to(root).as_posix(), path


def _inside(path: Path, real: Path, root: Path) -> None:
    """A link may lead out of the artifact for tensors, which are often kept in one place; for nothing else."""
    of_the_data = path.relative_to(root).parts[0] == DATA_DIR and (path.is_dir() or path.suffix == ".pt")
    if path.is_dir() and path.is_symlink() and path.parent.resolve().is_relative_to(path.resolve()):
        raise ArtifactError(path, "is a link to a directory above it", "take the link away")
    if not path.resolve().is_relative_to(real) and not of_the_data:
        raise ArtifactError(path, "is a link out of the artifact", "put the file itself there")


def external_files(artifact: Artifact, place: str = EXTERNAL) -> tuple[dict[str, Path], dict[str, str]]:
    """Sources and headers outside of the artifact: files by path in the pack, and where each went, by what its manifest
    may call it."""
    tree: dict[str, Path] = {}
    moved: dict[Path, str] = {}
    entry = artifact.orchestration.source
    if not entry.is_relative_to(artifact.root):
        moved[entry] = name = f"{place}/orchestration/{entry.name}"
        tree[name] = entry
    for kernel in artifact.kernels:
        if kernel.source.is_relative_to(artifact.root):
            continue
        moved[kernel.source] = name = f"{place}/{kernel.func_id}/{kernel.source.name}"
        tree[name] = kernel.source
    for kernel in artifact.kernels:
        for directory in kernel.extra_include_dirs:
            if directory.is_relative_to(artifact.root) or directory in moved:
                continue
            moved[directory] = name = f"{place}/include{len(moved)}"
            tree |= {f"{name}/{path.relative_to(directory).as_posix()}": path for path in _headers(directory)}
    return tree, {told: name for path, name in moved.items() for told in told_as(path, artifact.root)}


def told_as(path: Path, directory: Path) -> set[str]:
    """Return the spellings by which a file in ``directory`` may name an outside path (see `way_to`)."""
    return {str(path), way_to(path, directory)}


def _headers(directory: Path) -> Iterator[Path]:
    return (path for path in sorted(directory.rglob("*")) if path.suffix in _HEADERS and path.is_file())


def kind_of(path: str) -> str:
    """Return the group of a file in the list of sizes: its directory in the artifact, `data/in`, `external`."""
    parts = path.split("/")
    inside = parts[2:] if parts[0] == ARTIFACT else parts
    if inside[0] == DATA_DIR and len(inside) > 2:
        return f"{DATA_DIR}/{inside[1]}"
    return inside[0] if len(inside) > 1 else "manifest and others"
