"""Cases of scene tests for several chips: distributed artifacts whose chip programs a class has in common."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pypto_build.artifact import MANIFEST_NAME, ArtifactError
from pypto_build.artifact.distributed import Distributed, load_distributed, read_devices
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.layout import CHILDREN_DIR
from pypto_build.artifact.scenes import PROGRAMS_DIR
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.rules.subject import Subject

#: Chip programs by their directories, in the workspace's extras: what their manifests say in this run.
_WRITTEN = "chip programs of scene tests"


def open_node(workspace: Workspace, root: Path, of_class: Path) -> Distributed:
    """Return the artifact that a process has written to ``root``, with its chip programs.

    The chip programs lie in ``of_class``, so that cases share their builds. A chip program whose tensors have other
    directions than in another case lies in ``root``. Raises a usage error for files that cannot be read.
    """
    written: dict[Path, bytes] = workspace.extras.setdefault(_WRITTEN, {})
    links = root / CHILDREN_DIR
    found = {file.stem: file.read_bytes() for file in sorted((root / PROGRAMS_DIR).glob("*.py"))}
    for stale in [path for path in links.glob("*") if path.name not in found]:
        _remove(stale)
    links.mkdir(parents=True, exist_ok=True)
    for name, manifest in found.items():
        shared = of_class / CHILDREN_DIR / name
        if written.setdefault(shared, manifest) == manifest:
            _write(shared / MANIFEST_NAME, manifest)
            _link(links / name, Path(os.path.relpath(shared, links)))
        else:
            if (links / name).is_symlink():
                _remove(links / name)
            _write(links / name / MANIFEST_NAME, manifest)
    return load_distributed(root)


def check_ranks(workspace: Workspace, subjects: Iterable[Subject]) -> None:
    """Raise a usage error for WORLD= and DEVICES= that are of another number of chips than a case is recorded for."""
    devices = read_devices(workspace.options["DEVICES"], workspace.options["WORLD"])
    asked = len(devices) or workspace.options["WORLD"]
    for subject in subjects:
        if asked and subject.distributed is not None and subject.distributed.ranks != asked:
            option = f"DEVICES={workspace.options['DEVICES']}" if devices else f"WORLD={asked}"
            case, count = subject.origin.partition("::")[2], subject.distributed.ranks
            raise ArtifactError(option, f"{case} is for {count} chips", "its config says how many: device_count")


def _write(path: Path, content: bytes) -> None:
    if not path.is_file() or path.read_bytes() != content:
        write_bytes(path, content)


def _link(path: Path, target: Path) -> None:
    with suppress(OSError):
        if path.readlink() == target:
            return
    _remove(path)
    path.symlink_to(target)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
