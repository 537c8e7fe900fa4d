"""Parser of `BREAK=`, which names lines and functions of kernels."""

from __future__ import annotations

import re
from pathlib import Path

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.files import read_source

#: One breakpoint: `kernel_mul.cpp:69 if v19 == 128`, `69` or `kernel_mul`.
_ONE = re.compile(r"(?:(?P<file>[^:\s]+):)?(?P<where>\d{1,9}|[A-Za-z_][\w:~]*)(?:\s+if\s+(?P<condition>.+))?")
_ENTRY = "kernel_entry"
# Debuggers split and evaluate their commands: a file named `k if $_shell("ls").cpp` would become a condition that runs.
_PLAIN = re.compile(r"[\w.+-]+")


def breakpoints_of(artifact: Path, text: str, default: bool) -> list[tuple[str, str, str]]:
    """Return each breakpoint as (file, line or function, condition).

    If `text` is empty and `default` is true, return the entry of every kernel. Raises ArtifactError for a missing file
    or line, and for a file name that is unsafe in a debugger's command.
    """
    sources = {kernel.source.name: kernel.source for kernel in load_artifact(artifact).kernels}
    for name, path in sources.items():
        if not _PLAIN.fullmatch(name):
            raise ArtifactError(path, "a debugger would take its name for a command", "rename the file")
    if not text:
        return [(file, _begin(path), "") for file, path in sources.items()] if default else []
    found = []
    for part in filter(None, (one.strip() for one in text.split(","))):
        match = _ONE.fullmatch(part)
        if match is None:
            raise ArtifactError("", f"BREAK={part} is no line and no function", "such as kernel.cpp:69")
        file = Path(match["file"]).name if match["file"] else ""
        if file and file not in sources:
            raise ArtifactError("", f"BREAK={part}: no kernel has the file '{file}'", f"there are {', '.join(sources)}")
        files = [file] if file else list(sources)
        if match["where"].isdecimal():
            files = _with_line(files, sources, int(match["where"]), part)
        found += [(one, match["where"], match["condition"] or "") for one in files]
    return found


def _with_line(files: list[str], sources: dict[str, Path], line: int, part: str) -> list[str]:
    lengths = {file: len(read_source(sources[file]).splitlines()) for file in files}
    reach = [file for file, length in lengths.items() if 0 < line <= length]
    if not reach:
        most = max(lengths.values(), default=0)
        raise ArtifactError("", f"BREAK={part}: there is no line {line}", f"the kernel has {most}")
    return reach


def _begin(source: Path) -> str:
    """Return the function that a kernel's entry calls, or the entry if the source defines no such function."""
    text = read_source(source)
    name = source.stem
    return name if re.search(rf"\b{re.escape(name)}\s*\([^;{{}}]*\)\s*\{{", text) else _ENTRY
