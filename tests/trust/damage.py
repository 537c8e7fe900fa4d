"""Ways to damage a file or what is in its place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path


def _flip(offset: float) -> Callable[[Path], None]:
    """Flip one bit, so far into the file."""

    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        if content:
            content[min(int(offset * len(content)), len(content) - 1)] ^= 0x10
        path.write_bytes(content)

    return flip


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _neighbour(path: Path) -> None:
    """The content of another file of its kind, else of any other beside it, else of any near it."""
    others = [other for other in sorted(path.parent.iterdir()) if other.is_file() and other != path]
    others = [other for other in others if other.suffix == path.suffix] or others
    others = others or [other for other in sorted(path.parent.parent.rglob("*")) if other.is_file() and other != path]
    if others:
        path.write_bytes(others[0].read_bytes())


def _delete(path: Path) -> None:
    path.unlink()


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "something").write_text("of somebody's")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def _unreadable(path: Path) -> None:
    path.chmod(0)


KINDS: dict[str, Callable[[Path], None]] = {
    **{f"flip at {offset:.0%}": _flip(offset) for offset in (0.0, 0.05, 0.3, 0.6, 0.9, 1.0)},
    "truncate": _truncate,
    "empty": _empty,
    "neighbour": _neighbour,
    "delete": _delete,
    "directory": _directory,
    "fifo": _fifo,
    "dangling link": _dangling,
    **({} if os.geteuid() == 0 else {"unreadable": _unreadable}),
}


def damage(path: Path, kind: str) -> None:
    """Damage a file; its time tells nothing."""
    before = path.lstat()
    KINDS[kind](path)
    if path.is_file() and not path.is_symlink():
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def files_of(root: Path, without: tuple[str, ...] = ()) -> list[Path]:
    """The regular files below a directory, except those below names in ``without``."""
    regular_files = []
    for directory, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in without)
        paths = [Path(directory, name) for name in sorted(files)]
        regular_files += [path for path in paths if path.is_file() and not path.is_symlink()]
    return regular_files


def remove(path: Path) -> None:
    """Remove whatever is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
