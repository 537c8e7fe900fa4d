"""An archive where an artifact is expected: unpacked once below the build directory, with the options of its run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact.files import file_digest, write_bytes
from pypto_build.artifact.snapshot import REFERENCE
from pypto_build.diagnose.pack.form import DATA, SUFFIX, Pack
from pypto_build.diagnose.pack.reader import edited, read_pack, unpack
from pypto_build.diagnose.repeat import PASSED_ON

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
    """Unpack ``path`` below ``build_dir``, unless it is there already.

    Files that were edited there since stay as they are, with a note. Raises ArtifactError for what is no sound pack.
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
        _place_external(pack, root)
        notes.append(f"unpacked to {root}")
    options = {name: value for name, value in pack.options.items() if name in TAKEN}
    if options.get("DATA", REFERENCE) != REFERENCE:
        del options["DATA"]
    options["PLATFORM"] = pack.platform
    if not pack.own_data:
        options["DATA"] = str(root / DATA)
    return Opened(root / pack.root, options, pack, tuple(notes))


def _place_external(pack: Pack, root: Path) -> None:
    """Let the manifests name files outside of the artifact where they are now."""
    for name in pack.manifests if pack.external else ():
        text = (root / name).read_text(encoding="utf-8")
        for old in sorted(pack.external, key=len, reverse=True):
            text = text.replace(f'"{old}"', f'"{root / pack.external[old]}"')
            text = text.replace(f"'{old}'", f"'{root / pack.external[old]}'")
        write_bytes(root / name, text.encode())
