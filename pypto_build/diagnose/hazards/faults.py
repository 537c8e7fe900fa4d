"""Finding on a run that crashed or hung, at the line of the crash, of the kernel, or of the submission."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pypto_build.artifact import Artifact, ArtifactError
from pypto_build.artifact.cpp.syntax import Loop, loops
from pypto_build.artifact.files import read_source
from pypto_build.artifact.interface import relative_source
from pypto_build.diagnose.findings import Finding
from pypto_build.diagnose.lint.subject import read_wrapper
from pypto_build.diagnose.recorded.names import submissions
from pypto_build.facts.faults import FaultKind
from pypto_build.replay.verdict import OUT_OF_BOUNDS, ErrorInfo, Verdict

#: A frame in the stack of a crash: `#2 kernel_entry (kernels/aiv/x.cpp:12)`.
_FRAME = re.compile(r"#\d+ .*? \((?P<path>[^()]+):(?P<line>\d+)\b[^()]*(?:\([^()]*\))?\)")
# Rules of the kinds of errors whose rule has another name.
_RULES = {"runtime_error": "fault", OUT_OF_BOUNDS: "out-of-bounds"}
#: The call in the orchestration that requests what a fault refuses.
_ASKED = {FaultKind.TOO_MANY_BLOCKS_TOGETHER: "set_require_sync_start("}


def fault_finding(artifact: Artifact, verdict: Verdict, tool: str = "hazards") -> Finding | None:
    """Return the finding on the end of the run, with a rule of `tool`. None if the artifact did not cause it."""
    error = verdict.error
    if error is None or verdict.status not in ("runtime_error", "hang"):
        return None
    path, line = _position(artifact, error)
    return Finding(
        f"{tool}/{'hang' if verdict.status == 'hang' else _RULES.get(error.kind, error.kind)}",
        error.message.removeprefix(f"{error.line}: ").removesuffix(f", in {error.line}"),
        path,
        line,
        error.hint,
        detail=tuple(error.detail),
        tasks=(int(error.task),) if error.task is not None and error.task.isdigit() else (),
        kernel=error.kernel or "",
    )


def _position(artifact: Artifact, error: ErrorInfo) -> tuple[str, int]:
    files = [artifact.orchestration.source, *(kernel.source for kernel in artifact.kernels)]
    places = [(match["path"], int(match["line"])) for match in map(_FRAME.match, error.detail) if match]
    where, _, number = error.line.rpartition(":")
    reported = [(where, int(number))] if number.isdigit() else []
    for path, line in [*reported, *places, *_scope(error)]:
        file = next((one for one in files if one.as_posix().endswith(_tail(path))), None)
        if file:
            return relative_source(file, artifact.root), _loop_around(file, line) if _spins(error) else line
    orchestration = artifact.orchestration.source
    if error.kernel is None:
        return relative_source(orchestration, artifact.root), _named_line(orchestration, error)
    kernel = next((kernel for kernel in artifact.kernels if kernel.name == error.kernel), None)
    if kernel is None:
        return "", 0
    if error.fault and error.fault.kind in (FaultKind.STALL, FaultKind.TENSOR_WAIT):  # it never ran
        sites = [site.line for site in submissions(orchestration).submits if kernel.func_id in site.func_ids]
        return relative_source(orchestration, artifact.root), sites[0] if len(sites) == 1 else 0
    return relative_source(kernel.source, artifact.root), _body_line(kernel.source, _spins(error))


def _spins(error: ErrorInfo) -> bool:
    """Return whether a kernel did not end before the time limit. The runtime detects all other hangs itself."""
    return error.kind == "hang" and error.fault is None


def _scope(error: ErrorInfo) -> list[tuple[str, int]]:
    """Return the position where a scope begins that needs too much memory, if the fault is about one."""
    if error.fault is None or "ring" not in error.fault.fields:
        return []
    file, line = error.fault.fields.get("file"), error.fault.fields.get("line")
    return [(file, line)] if isinstance(file, str) and isinstance(line, int) and line else []


def _named_line(source: Path, error: ErrorInfo) -> int:
    """Return the only line of the orchestration with the error's text or the refused call. Otherwise return 0."""
    needle = (_ASKED.get(error.fault.kind) if error.fault else None) or f'"{error.message}"'
    lines = read_source(source).splitlines()
    numbers = [number for number, text in enumerate(lines, 1) if needle in text]
    return numbers[0] if len(numbers) == 1 else 0


def _tail(path: str) -> str:
    """Return the last two parts of a path, since debug information has paths of the compiling machine."""
    return "/" + "/".join(Path(path).parts[-2:]).lstrip("/")


def _body_line(source: Path, spins: bool) -> int:
    """Return the line of the kernel's body. If it `spins`, return the line of its endless loop if that is certain."""
    try:
        wrapper = read_wrapper(source, source.name)
    except ArtifactError:
        return 0
    body = (wrapper.called.start, wrapper.called.end) if wrapper.called else wrapper.entry
    if body is None:
        return 0
    first, last = map(wrapper.code.line, body)
    inside = [loop for loop in loops(wrapper.code.raw) if first <= loop.line <= last]
    if spins and (loop := _endless(inside)) is not None:
        return loop.line
    return wrapper.called.line if wrapper.called else first


def _loop_around(source: Path, line: int) -> int:
    """Return the line of the loop that a kernel was in at the time limit.

    That is the only surrounding loop without an end or a step, else the innermost one. Without a loop, return the line
    itself.
    """
    try:
        around = [loop for loop in loops(read_source(source)) if loop.line <= line <= loop.last]
    except ArtifactError:
        return line
    still = [loop for loop in around if not (loop.has_end and loop.has_step)]
    chosen = still if len(still) == 1 else around[-1:]
    return chosen[0].line if chosen else line


def _endless(inside: Sequence[Loop]) -> Loop | None:
    """Return the endless loop: the one without an end, else without a step, else the only one.

    Returns None if there are several, or no loop.
    """
    kinds = ([loop for loop in inside if not loop.has_end], [loop for loop in inside if not loop.has_step], inside)
    candidates = next(filter(None, kinds), ())
    return candidates[0] if len(candidates) == 1 else None
