"""Finds the orchestration's source line that ended a run, from the stack that the runtime recorded."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory

from pypto_build.artifact.files import read_text
from pypto_build.replay.lines import Recompiled, of_this_machine
from pypto_build.replay.verdict import ErrorInfo
from pypto_build.runtime.faults import FaultRecord
from pypto_build.runtime.report import Frame, look_up

#: Operations of a tensor, whose messages begin with "OPERATION of [SIZES]".
_OPERATION = re.compile(r"\b(view|reshape|transpose|permute|slice) of \[")


def add_call_line(error: ErrorInfo, record: FaultRecord, binaries: Collection[str]) -> None:
    """Set the line of `error`, and prefix the message with it unless it already begins with one. If the message is
    about a tensor operation, add the name of that tensor."""
    line = _line(record, binaries)
    if not line:
        return
    error.line = line.removeprefix(f"{os.getcwd()}/")
    path, _, number = line.rpartition(":")
    text = _text(Path(path), int(number)) if number.isdigit() else ""
    if text:
        error.detail.insert(0, f"{number} | {text}")
        error.message = _OPERATION.sub(lambda match: _named(match, text), error.message, count=1)
    if not error.message.startswith(f"{record.fields.get('file')}:"):
        error.message = f"{error.line}: {error.message}"


def _line(record: FaultRecord, binaries: Collection[str]) -> str:
    """Return the innermost line of the artifact's own code; empty without debug information."""
    with TemporaryDirectory(prefix="pypto-lines-") as directory:
        elsewhere = Recompiled(Path(directory)).place
        calls = [(Frame(module, offset, ""), offset) for module, offset in record.frames]
        frames = map(of_this_machine, look_up(calls, elsewhere, binaries))
        return next((frame.code for frame in frames if frame.code), "")


def _text(path: Path, number: int) -> str:
    """Return line `number` of a file; empty if there is none."""
    try:
        lines = read_text(path, errors="replace").splitlines()
    except OSError:
        return ""
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def _named(match: re.Match[str], text: str) -> str:
    """Return the matched words, with the variable that `text` calls the operation on, if it is a variable."""
    variable = re.search(rf"(\w+)\s*(?:\.|->)\s*{match[1]}\s*\(", text)
    return f"{match[1]} of '{variable[1]}' [" if variable else match[0]
