"""The result directories of an artifact that is replayed in several ways; OUT shows the results of the last request.

``OUT/replays/<configuration>/`` holds the verdict and other results of one configuration. ``OUT/verdict.json``,
``OUT/actual`` and the others are links through ``OUT/replays/latest``, which changes by one rename.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

#: The files and directories that a replay leaves.
NAMES = ("verdict.json", "actual", "dfx_outputs", "reference")
REPLAYS = "replays"
LATEST = "latest"


def hide(out: Path) -> None:
    """Remove the links in ``out`` while their targets are rewritten; other files stay."""
    for name in NAMES:
        if (out / name).is_symlink():
            (out / name).unlink(missing_ok=True)  # another run may take it away meanwhile


def show(results: Path) -> None:
    """Link OUT to ``results``, a directory in ``OUT/replays``, in place of the previous one."""
    out = results.parent.parent
    _link(results.parent / LATEST, results.name)
    for name in NAMES:
        if (results / name).exists():
            _link(out / name, f"{REPLAYS}/{LATEST}/{name}")
        else:
            _remove(out / name)


def _link(path: Path, to: str) -> None:
    with suppress(OSError):  # no link, or one that another run has just taken away
        if os.readlink(path) == to:
            return
    if path.is_dir() and not path.is_symlink():  # the directory of a replay without configuration
        shutil.rmtree(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        temporary.symlink_to(to)
        temporary.replace(path)
    except OSError as error:  # the error names the link's target, not the link
        raise OSError(error.errno, error.strerror, str(path)) from None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            path.unlink()
