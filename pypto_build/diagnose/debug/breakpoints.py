"""Where `BREAK=` means: lines and functions of kernels."""

from __future__ import annotations

import re
from pathlib import Path

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.files import read_source

#: `kernel_mul.cpp:69 if v19 == 128`, `69`, `kernel_mul`.
_ONE = re.compile(r"(?:(?P<file>[^:\s]+):)?(?P<where>\d{1,9}|[A-Za-z_][\w:~]*)(?:\s+if\s+(?P<condition>.+))?")
_ENTRY = "kernel_entry"
# Debuggers split and evaluate what is told to them: `k if $_shell("ls").cpp` is a breakpoint with a condition.
_PLAIN = re.compile(r"[\w.+-]+")


def breakpoints_of(artifact: Path, text: str, default: bool) -> list[tuple[str, str, str]]:
    """(file, line or function, condition) of each; of none, where `default` says so, the begins of all kernels.

    Raises ArtifactError for a file or line that is not there, and for a file that no debugger can be told of.
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
    """The function that a kernel's entry calls, else the entry itself."""
    text = read_source(source)
    name = source.stem
    return name if re.search(rf"\b{re.escape(name)}\s*\([^;{{}}]*\)\s*\{{", text) else _ENTRY
