"""Finds source lines in binaries without line numbers: after a crash, recompiles them with line numbers.

Line numbers in every binary would slow down every compilation. The command comes from ``compile_commands.json`` above
the binary. It makes a shared object with the same functions, so an offset in a function stays the same.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from pypto_build.artifact.files import decode_json, read_bytes, read_text
from pypto_build.artifact.outputs import local_source
from pypto_build.facts.faults import Nearness
from pypto_build.facts.places import FLAG
from pypto_build.replay.verdict import ErrorInfo
from pypto_build.runtime.faults import FaultRecord
from pypto_build.runtime.report import Frame, Report, Running, Sample, look_up

# Finds the orchestration's source line that ended a run, from the stack that the runtime recorded.

#: Operations of a tensor, whose messages begin with "OPERATION of [SIZES]".
_OPERATION = re.compile(r"\b(view|reshape|transpose|permute|slice) of \[")


def add_call_line(error: ErrorInfo, record: FaultRecord, binaries: Collection[str]) -> None:
    """Set the line of `error`, and prefix the message with it unless it already begins with one. If the message is
    about a tensor operation, add the name of that tensor."""
    line = _call_line_line(record, binaries)
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


def _call_line_line(record: FaultRecord, binaries: Collection[str]) -> str:
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


# Describes the state of every core when a run cannot go on: its kernel, since when, the source line, and polled
# memory.

#: The number of successive samples at one address that make a poll.
_POLLS = 4


@dataclass(frozen=True)
class Whereabouts:
    """The state of a core: its kernel, its source line (empty if unknown), and a description of the memory it polls."""

    running: Running
    line: str = ""
    touches: str = ""

    def __str__(self) -> str:
        item = self.running
        since = max(time.monotonic_ns() - item.start_ns, 0) / 1e9
        doing = "waits in" if item.waits else "runs"
        at = f" at {self.line}" if self.line else ""
        task = f"task {item.task} block {item.block}, kernel '{item.kernel}'"
        touches = f": {self.touches}" if self.touches else ""
        return f"core {item.core} ({item.role}) {doing} {task}{at}, since {since:.1f} s{touches}"


def whereabouts(report: Report, binaries: Collection[str], ranks: int = 1) -> list[Whereabouts]:
    """Return the state of all cores that ran a kernel, longest first. Source lines are looked up in `binaries`; `ranks`
    is the number of ranks that share memory."""
    samples = {sample.running.core: sample for sample in report.samples}
    running = {sample.running.core: sample.running for sample in report.samples}
    running |= {item.core: item for item in report.running}
    lines = _lines(list(samples.values()), binaries)
    alone = ranks == 1 and report.open <= 1 and len(running) <= 1 and not report.orchestrating
    return [
        Whereabouts(item, lines.get(core, ""), _touches(samples.get(core), alone))
        for core, item in sorted(running.items(), key=lambda pair: pair[1].start_ns)
    ]


def _lines(samples: Sequence[Sample], binaries: Collection[str]) -> dict[int, str]:
    """Return the innermost line of the artifact's own code, by core."""
    with TemporaryDirectory(prefix="pypto-lines-") as directory:
        elsewhere = Recompiled(Path(directory)).place
        lines = {}
        for sample in samples:
            frames = look_up([(frame, frame.offset) for frame in sample.frames], elsewhere, binaries)
            lines[sample.running.core] = next(filter(None, map(_line, map(of_this_machine, frames))), "")
    return lines


def _line(frame: Frame) -> str:
    """Return the line of a frame; empty for a line of a header."""
    mapped = (
        os.path.normpath(frame.line) if frame.line.startswith("./") else ""
    )  # in a build that does not know the artifact's path
    return (frame.code or mapped).removeprefix(f"{os.getcwd()}/")


def _touches(sample: Sample | None, alone: bool) -> str:
    """Describe the memory that a loop polls: its address, its value, and whether any other code could still change
    it."""
    if sample is None or sample.polls < _POLLS or sample.running.waits:  # declared waits are reported elsewhere
        return ""
    is_named = sample.nearest.nearness not in (Nearness.UNKNOWN, Nearness.NOTHING)
    target = f"{sample.nearest} at 0x{sample.address:x}" if is_named else f"0x{sample.address:x}"
    others = ", and nothing else runs or is ready that could change it" if alone else ""
    return f"it polls {target}, which holds {sample.value} (int32){others}"


_LISTING = "compile_commands.json"
_TIME_LIMIT_S = 60
#: addr2line names the wrong file for lines of inline functions in DWARF 5.
_LINES = ("-g1", "-gdwarf-4")
_SYMBOL = re.compile(r"([0-9a-f]+) .{5}.F \S+\t([0-9a-f]+)\s+(?:\.\w+\s+)?(\S+)")


def of_this_machine(frame: Frame) -> Frame:
    """Return a frame with the paths of its sources on this machine."""
    line, code = (local_source(position, frame.module) for position in (frame.line, frame.code))
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
