"""Where results lie when an artifact is replayed in several ways: a directory each, and OUT shows those asked for last.

``OUT/replays/<configuration>/`` holds the verdict and all else of one way; ``OUT/verdict.json``, ``OUT/actual`` and the
others are links, by way of ``OUT/replays/latest``, which changes in one rename.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

#: What a replay leaves.
NAMES = ("verdict.json", "actual", "dfx_outputs", "reference")
REPLAYS = "replays"
LATEST = "latest"


def hide(out: Path) -> None:
    """Take the links in ``out`` away, while what they lead to is made anew; other files stay."""
    for name in NAMES:
        if (out / name).is_symlink():
            (out / name).unlink()


def show(results: Path) -> None:
    """Let OUT show ``results``, a directory in ``OUT/replays``, in place of what stood there."""
    out = results.parent.parent
    _link(results.parent / LATEST, results.name)
    for name in NAMES:
        if (results / name).exists():
            _link(out / name, f"{REPLAYS}/{LATEST}/{name}")
        else:
            _remove(out / name)


def _link(path: Path, to: str) -> None:
    if path.is_symlink() and os.readlink(path) == to:
        return
    if path.is_dir() and not path.is_symlink():  # of a run by hand
        shutil.rmtree(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        temporary.symlink_to(to)
        temporary.replace(path)
    except OSError as error:  # it names what the link is to lead to
        raise OSError(error.errno, error.strerror, str(path)) from None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            path.unlink()
