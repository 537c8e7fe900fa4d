"""`scons pack`: artifact, data, options and surroundings of a run in one archive, which `pypto-build replay` takes.

python -m pypto_build.diagnose.pack ARTIFACT_DIR --platform P --build-dir OUT [--output x.tar.zst] [options of the run]
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import shlex
import sys
import tarfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec
import zstandard

from pypto_build import __version__
from pypto_build.artifact import Artifact, ArtifactError, is_distributed, load_artifact, snapshot
from pypto_build.artifact.distributed import load_distributed, scene_test_of
from pypto_build.artifact.files import from_here, replace_file
from pypto_build.artifact.layout import CHILDREN_DIR, SUB_WORKERS
from pypto_build.artifact.manifest import portable_path
from pypto_build.artifact.snapshot import DATA_DIR, REFERENCE, Snapshot
from pypto_build.diagnose.console import add_chips, command, progress, table, tool_parser
from pypto_build.diagnose.pack.opened import (
    ARTIFACT,
    DATA,
    EXTERNAL,
    MANIFEST,
    OBJECTS,
    SUFFIX,
    WINDOW_BITS,
    File,
    Pack,
)
from pypto_build.diagnose.recorded.evidence import Evidence
from pypto_build.diagnose.repeat import add_passed_on, written_options
from pypto_build.diagnose.report.surroundings import environment

# Writes a pack: digests first, then every content once, in one pass over the files.

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
                raise ArtifactError(sources[digest], "changed while 'scons pack' read it", "pack again")
    return path.stat().st_size


class _Checked(io.RawIOBase):
    """A file that computes the digest of the bytes read from it."""

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


# Selection of the files of a run that its pack holds, and their paths in the pack.

#: Made again from the rest, or by a run.
_LEFT_OUT = {"__pycache__", "cache", "dfx_outputs", "actual"}
_BINARIES = (".o", ".so", ".bin", ".pyc", ".bak", ".tmp", ".lock")
_HEADERS = (".h", ".hpp", ".hh", ".inc", ".inl", ".cuh")


def tree_of(artifact: Artifact, data: Snapshot | None, linked: Iterable[Path] = ()) -> dict[str, Path]:
    """Return the files of a pack by their path in the pack.

    ``data`` are files of a data directory outside of the artifact. ``linked`` are chip programs outside of the
    artifact, which several artifacts share.
    """
    root, programs = f"{ARTIFACT}/{artifact.name}", list(linked)
    links = [artifact.root / CHILDREN_DIR / program.name for program in programs]
    tree = {f"{root}/{name}": path for name, path in _artifact_files(artifact.root, data is None, links)}
    for program in programs:
        folder = f"{root}/{CHILDREN_DIR}/{program.name}"
        tree |= {f"{folder}/{name}": path for name, path in _artifact_files(program, own_data=True)}
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
    """Refuse links that leave the artifact. Only links to tensors may, because tensors are often kept in one place."""
    of_the_data = path.relative_to(root).parts[0] == DATA_DIR and (path.is_dir() or path.suffix == ".pt")
    if path.is_dir() and path.is_symlink() and path.parent.resolve().is_relative_to(path.resolve()):
        raise ArtifactError(path, "is a symbolic link to a directory above it", "remove the link")
    if not path.resolve().is_relative_to(real) and not of_the_data:
        raise ArtifactError(
            path, "is a symbolic link to a file outside of the artifact", "replace the link by a copy of the file"
        )


def external_files(artifact: Artifact, folder: str = EXTERNAL) -> tuple[dict[str, Path], dict[str, str]]:
    """Sources and headers outside of the artifact: files by path in the pack, and where each went, by what its manifest
    may call it."""
    tree: dict[str, Path] = {}
    moved: dict[Path, str] = {}
    entry = artifact.orchestration.source
    if not entry.is_relative_to(artifact.root):
        moved[entry] = name = f"{folder}/orchestration/{entry.name}"
        tree[name] = entry
    for kernel in artifact.kernels:
        if kernel.source.is_relative_to(artifact.root):
            continue
        moved[kernel.source] = name = f"{folder}/{kernel.func_id}/{kernel.source.name}"
        tree[name] = kernel.source
    for kernel in artifact.kernels:
        for directory in kernel.extra_include_dirs:
            if directory.is_relative_to(artifact.root) or directory in moved:
                continue
            moved[directory] = name = f"{folder}/include{len(moved)}"
            tree |= {f"{name}/{path.relative_to(directory).as_posix()}": path for path in _headers(directory)}
    return tree, {spelling: name for path, name in moved.items() for spelling in spellings_of(path, artifact.root)}


def spellings_of(path: Path, directory: Path) -> set[str]:
    """Return the spellings by which a file in ``directory`` may name an outside path (see `portable_path`)."""
    return {str(path), portable_path(path, directory)}


def _headers(directory: Path) -> Iterator[Path]:
    return (path for path in sorted(directory.rglob("*")) if path.suffix in _HEADERS and path.is_file())


def kind_of(path: str) -> str:
    """Return the group of a file in the list of sizes: its directory in the artifact, `data/in`, `external`."""
    parts = path.split("/")
    inside = parts[2:] if parts[0] == ARTIFACT else parts
    if inside[0] == DATA_DIR and len(inside) > 2:
        return f"{DATA_DIR}/{inside[1]}"
    return inside[0] if len(inside) > 1 else "manifest and others"


#: Options that name files of this machine.
_LOCAL = {"DATA", "DEVICE"}
_MAYBE_LOCAL = {"SIMPLER", "PTO_ISA"}
_BUILD_FLAGS = {"ARCH": "--arch", "KERNEL_FLAGS": "--kernel-flags"}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = tool_parser("pack", __doc__)
    add = options.add_argument
    add("artifact", type=Path, metavar="ARTIFACT_DIR")
    add("--build-dir", type=Path, required=True, metavar="OUT", help="where it was replayed")
    add("--platform", default="a2a3sim", help="what it was replayed on")
    add("--embedded", help="the runtime's module; not packed, since it is compiled where the archive is replayed")
    add("--output", type=Path, help=f"the archive (default: OUT/<artifact>{SUFFIX})")
    add("--golden", type=Path, metavar="DIR", help="goldens from there, not from the data's out/")
    for name, flag in _BUILD_FLAGS.items():
        add(flag, metavar="VALUE", help=f"what it was built with as {name}=")
    add_passed_on(options)  # --world is one of them
    add_chips(options)
    return options


def _data(options: argparse.Namespace, artifact: Artifact) -> Snapshot | None:
    """Return the data of DATA= and the goldens of a test, or None for the artifact's own data."""
    if options.golden is not None:
        return snapshot(artifact, options.data, options.golden)
    if options.data is None or str(options.data) == REFERENCE:
        return None
    return snapshot(artifact, options.data)


def _options(options: argparse.Namespace) -> dict[str, str]:
    values = dict(one.split("=", 1) for one in written_options(options.words).assignments)
    values |= {name: getattr(options, flag[2:].replace("-", "_")) for name, flag in _BUILD_FLAGS.items()}
    local = _LOCAL | {name for name in _MAYBE_LOCAL if Path(values.get(name, "")).exists()}
    kept = {name: value for name, value in values.items() if value and name not in local}
    return kept | ({"DATA": REFERENCE} if str(options.data) == REFERENCE else {})


def pack_run(
    options: argparse.Namespace,
    artifact: Artifact,
    parts: Mapping[str, Artifact] | None = None,
    more: Mapping[Path, str] = MappingProxyType({}),
) -> int:
    """Write the archive of a run of `artifact`.

    `parts` are the chip programs of a distributed artifact. `more` maps files that its host callables need to their
    paths in the archive.
    """
    evidence = Evidence(options.artifact, options.build_dir, options.platform)
    if evidence.verdict is None:
        raise ArtifactError(options.build_dir / "verdict.json", "is missing", "replay the artifact first: scons replay")
    data = _data(options, artifact)
    linked = [part.root for part in (parts or {}).values() if not part.root.is_relative_to(artifact.root)]
    tree = tree_of(artifact, data, linked) | {target: path for path, target in more.items()}
    callables = artifact.root / SUB_WORKERS
    moved = {spelling: target for path, target in more.items() for spelling in spellings_of(path, callables)}
    for target, part in {EXTERNAL: artifact}.items() if parts is None else parts.items():
        others, paths = external_files(part, target)
        tree |= others
        moved |= paths
    rows = environment(evidence, options.data if data and options.data else None)
    pack = Pack(
        artifact=artifact.name,
        platform=options.platform,
        options=_options(options),
        files=digested(tree),
        status=evidence.verdict.status,
        own_data=data is None,
        external=moved,
        environment=tuple((name, value) for name, value in rows if not name.startswith("sha256")),
        version=__version__,
    )
    path = options.output or options.build_dir / f"{artifact.name}{SUFFIX}"
    size = write_pack(path, pack, tree)
    print("\n".join(_sizes(pack)))
    print(f"[pack] {from_here(path)}  ({_amount(size)} for {_amount(pack.size)}; verdict {pack.status})")
    print(f"[pack] elsewhere: pypto-build replay {shlex.quote(path.name)}")
    return 0


def _sizes(pack: Pack) -> list[str]:
    """Return a table of files and bytes by kind, and the bytes saved by storing equal files once."""
    kinds: dict[str, list[int]] = {}
    for file in pack.files:
        kinds.setdefault(kind_of(file.path), []).append(file.size)
    rows = [[kind, str(len(sizes)), _amount(sum(sizes))] for kind, sizes in sorted(kinds.items())]
    saved = pack.size - sum(pack.objects.values())
    more = [f"{_amount(saved)} of it are equal files, stored once"] if saved else []
    return [*table(rows, ["", "files", "size"]), *more]


def _amount(size: int) -> str:
    for bits, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >> bits:
            return f"{size / (1 << bits):.1f} {unit}"
    return f"{size} B"


@command("pack", parser)
def main(options: argparse.Namespace) -> int:
    """Write the archive; 0, or 2 where there is nothing to pack."""
    if not is_distributed(options.artifact):
        return pack_run(options, load_artifact(options.artifact))
    distributed = load_distributed(options.artifact)
    parts = {f"{EXTERNAL}/{name}": load_artifact(chip) for name, chip in distributed.chips.items()}
    tests = {test for test in map(scene_test_of, distributed.sub_workers.values()) if test and test.is_file()}
    others = {test: f"{EXTERNAL}/{SUB_WORKERS}/{test.name}" for test in tests}
    return pack_run(options, distributed.as_artifact(), parts, others)


if __name__ == "__main__":
    sys.exit(main())
