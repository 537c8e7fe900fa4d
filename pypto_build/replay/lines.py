"""Finds source lines of binaries that were compiled without line numbers: compiles them again, with them, after a
crash.

Line numbers in every binary would slow down every compilation. The command comes from ``compile_commands.json`` above
the binary. It makes a shared object with the same functions, so an offset in a function stays the same.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import msgspec

from pypto_build.artifact.files import decode_json, read_bytes
from pypto_build.artifact.outputs import actual_place
from pypto_build.facts.places import FLAG
from pypto_build.runtime.report import Frame

_LISTING = "compile_commands.json"
_TIME_LIMIT_S = 60
#: addr2line names the wrong file for lines of inline functions in DWARF 5.
_LINES = ("-g1", "-gdwarf-4")
_SYMBOL = re.compile(r"([0-9a-f]+) .{5}.F \S+\t([0-9a-f]+)\s+(?:\.\w+\s+)?(\S+)")


def of_this_machine(frame: Frame) -> Frame:
    """Return a frame with the paths of its sources on this machine."""
    line, code = (actual_place(position, frame.module) for position in (frame.line, frame.code))
    return replace(frame, line=line, code=code)


class Recompiled:
    """Shared objects with line numbers, compiled into a temporary `directory` when they are first needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._objects: dict[str, Path | None] = {}

    def place(self, module: str, offset: int) -> tuple[Path, int] | None:
        """Return the recompiled object, and the offset in it, for byte `offset` of a shared object; None if unknown."""
        if module not in self._objects:
            self._objects[module] = self._compile(Path(module))
        compiled = self._objects[module]
        if compiled is None:
            return None
        for name, (start, size) in _functions(Path(module)).items():
            if not start <= offset < start + size:
                continue
            begin, length = _functions(compiled).get(name, (0, 0))
            return (compiled, begin + offset - start) if length == size else None
        return None

    def _compile(self, module: Path) -> Path | None:
        arguments, directory = _command(module.with_suffix(".o"))
        target = self._directory / f"{len(self._objects)}.so"
        if "-o" not in arguments or "-c" not in arguments:
            return None
        arguments[arguments.index("-o") + 1] = str(target)
        arguments[arguments.index("-c")] = "-shared"
        arguments = [word for word in arguments if not word.startswith(FLAG)]  # keep the real paths of this machine
        try:
            run = subprocess.run(
                [*arguments, *_LINES], cwd=directory, capture_output=True, timeout=_TIME_LIMIT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return target if run.returncode == 0 else None


class _Entry(msgspec.Struct):
    directory: str
    output: str
    arguments: list[str] = []


def _command(binary: Path) -> tuple[list[str], str]:
    """Return the arguments that compiled an object, and their working directory; no arguments if none are recorded."""
    for parent in binary.parents:
        listing = parent / _LISTING
        if not listing.is_file():
            continue
        try:
            for entry in decode_json(read_bytes(listing), list[_Entry]):
                if Path(entry.directory, entry.output).resolve() == binary.resolve():
                    return entry.arguments, entry.directory
        except (OSError, ValueError):
            return [], ""
    return [], ""


def _functions(file: Path) -> dict[str, tuple[int, int]]:
    """Return the functions of a shared object: address and size, by name."""
    try:
        text = subprocess.run(["objdump", "-t", str(file)], capture_output=True, text=True, check=False).stdout
    except OSError:  # not installed
        return {}
    return {
        match[3]: (int(match[1], 16), int(match[2], 16)) for match in map(_SYMBOL.match, text.splitlines()) if match
    }
