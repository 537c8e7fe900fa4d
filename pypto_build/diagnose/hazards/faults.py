"""Finding on a run that crashed or hung, at the line of the crash, of the kernel, or of the submission."""

from __future__ import annotations

import re
from pathlib import Path

from pypto_build.artifact import Artifact, ArtifactError
from pypto_build.artifact.files import read_source
from pypto_build.artifact.interface import relative_source
from pypto_build.diagnose.findings import Finding
from pypto_build.diagnose.lint.subject import read_wrapper
from pypto_build.diagnose.lint.text import matching
from pypto_build.diagnose.recorded.names import read_sites
from pypto_build.facts.faults import FaultKind
from pypto_build.replay.verdict import OUT_OF_BOUNDS, ErrorInfo, Verdict

#: A frame in the stack of a crash: `#2 kernel_entry (kernels/aiv/x.cpp:12)`.
_FRAME = re.compile(r"#\d+ .*? \((?P<path>[^()]+):(?P<line>\d+)\b[^()]*(?:\([^()]*\))?\)")
_LOOP = re.compile(r"\b(?:for|while)\s*\(")
_NO_END = re.compile(r"for\s*\([^;()]{0,400};\s*(?:true|1)?\s*;|while\s*\(\s*(?:true|1)\s*\)")
_NO_STEP = re.compile(r"for\s*\([^;()]{0,400};[^;()]{0,400};\s*\)")
_STEP_OF_NOTHING = re.compile(r"for\s*\([^;]{0,400};[^;]{0,400};\s*\w+\s*[+-]=\s*0\s*\)")
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
        sites = [site.line for site in read_sites(orchestration) if kernel.func_id in site.func_ids]
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
    if spins and body and (loop := _endless(wrapper.code.code, *body)) is not None:
        return wrapper.code.line(loop)
    return wrapper.called.line if wrapper.called else wrapper.code.line(wrapper.entry[0]) if wrapper.entry else 0


def _loop_around(source: Path, line: int) -> int:
    """Return the line of the loop that a kernel was in at the time limit.

    That is the only surrounding loop without an end or a step, else the innermost one. Without a loop, return the line
    itself.
    """
    try:
        code = read_wrapper(source, source.name).code
    except ArtifactError:
        return line
    lines = code.code.splitlines(keepends=True)
    at = sum(map(len, lines[: line - 1]))
    around = [start for start, end in _loops(code.code) if start <= at + len(lines[line - 1]) and at < end]
    still = [start for start in around if any(p.match(code.code, start) for p in (_NO_END, _NO_STEP, _STEP_OF_NOTHING))]
    chosen = still[0] if len(still) == 1 else around[-1] if around else None
    return line if chosen is None else code.line(chosen)


def _loops(code: str) -> list[tuple[int, int]]:
    """Return the start and end of each loop, outer loops first. The end is the brace or semicolon behind the body."""
    spans = []
    for match in _LOOP.finditer(code):
        end = matching(code, match.end() - 1) + 1
        body = end + len(code[end:]) - len(code[end:].lstrip())
        last = matching(code, body) + 1 if code[body : body + 1] == "{" else code.find(";", body)
        spans.append((match.start(), last))
    return spans


def _endless(code: str, start: int, end: int) -> int | None:
    """Return the offset of the endless loop: the one without an end, else without a step, else the only one.

    Returns None if there are several, or no loop.
    """
    loops = [candidates.start() for candidates in _LOOP.finditer(code, start, end)]
    kinds = [[at for at in loops if pattern.match(code, at)] for pattern in (_NO_END, _NO_STEP)]
    candidates = next(filter(None, (*kinds, loops)), [])
    return candidates[0] if len(candidates) == 1 else None
