"""The output directory of an artifact: its marker file, and the source paths in the debug information of its
binaries.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from pypto_build.facts import places

from .files import read_bytes, write_bytes

#: Set in every output directory, so that `scons -c` without an artifact finds what was built.
MARKER = ".pypto-build"
_OF = "artifact: "


def mark_output(path: Path, root: Path | None = None) -> None:
    """Mark ``path`` as an output directory, of the artifact in ``root`` if given: `scons -c` cleans only marked
    directories.
    """
    marker = path / MARKER
    path.mkdir(parents=True, exist_ok=True)
    if not marker.exists() or (root is not None and artifact_of(path) != root):
        of = f"{_OF}{os.fsdecode(root)}\n" if root else ""
        text = f"Built by pypto-build; scons -c removes it.\n{of}"
        write_bytes(marker, text.encode("utf-8", "surrogateescape"))


def artifact_of(output: Path) -> Path | None:
    """Return the artifact that an output directory was built from, if its marker names one."""
    with suppress(OSError):
        text = read_bytes(output / MARKER).decode(errors="surrogateescape")
        of = text.rpartition(f"\n{_OF}")[2].removesuffix("\n") if f"\n{_OF}" in text else ""
        return Path(of) if of and "\0" not in of else None
    return None


def output_of(path: Path) -> Path | None:
    """Return the output directory that a path lies in."""
    return next((parent for parent in path.parents if (parent / MARKER).is_file()), None)


def local_source(line: str, binary: str | Path) -> str:
    """Return a source line (FILE or FILE:LINE) from ``binary``'s debug information with a path on this machine.

    Other paths, and those of an unknown artifact, stay unchanged.
    """
    names = (places.ARTIFACT, places.OUTPUT, places.WORKSPACE)
    name = next((name for name in names if line.startswith(f"{name}/")), "")
    if not name:
        return line
    output = output_of(Path(binary))
    directory = Path.cwd() if name == places.WORKSPACE else output
    if name == places.ARTIFACT and output is not None:
        directory = artifact_of(output)
    return line if directory is None else f"{directory}{line[len(name) :]}"
