"""A checked run that crashed or hung, as a finding at a line: where it crashed, else the kernel or the submission."""

from __future__ import annotations

import re
from pathlib import Path

from pypto_build.artifact import Artifact, ArtifactError
from pypto_build.artifact.files import read_source
from pypto_build.artifact.interface import relative_source
from pypto_build.diagnose.findings import Finding
from pypto_build.diagnose.lint.text import matching
from pypto_build.diagnose.lint.wrapper import read_wrapper
from pypto_build.diagnose.recorded.sites import read_sites
from pypto_build.facts.faults import FaultKind
from pypto_build.replay.verdict import OUT_OF_BOUNDS, ErrorInfo, Verdict

#: `#2 kernel_entry (kernels/aiv/x.cpp:12)` in the stack of a crash.
_FRAME = re.compile(r"#\d+ .*? \((?P<path>[^()]+):(?P<line>\d+)\b[^()]*(?:\([^()]*\))?\)")
_LOOP = re.compile(r"\b(?:for|while)\s*\(")
_NO_END = re.compile(r"for\s*\([^;()]{0,400};\s*(?:true|1)?\s*;|while\s*\(\s*(?:true|1)\s*\)")
_NO_STEP = re.compile(r"for\s*\([^;()]{0,400};[^;()]{0,400};\s*\)")
_STEP_OF_NOTHING = re.compile(r"for\s*\([^;]{0,400};[^;]{0,400};\s*\w+\s*[+-]=\s*0\s*\)")
# Kinds of errors that the rules have other words for.
_RULES = {"runtime_error": "fault", OUT_OF_BOUNDS: "out-of-bounds"}
#: What the orchestration calls to ask for what a fault refuses.
_ASKED = {FaultKind.TOO_MANY_BLOCKS_TOGETHER: "set_require_sync_start("}


def fault_finding(artifact: Artifact, verdict: Verdict, tool: str = "hazards") -> Finding | None:
    """What ended the run, as `tool` reports it; None where it was nothing that the artifact did."""
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
    known = [(where, int(number))] if number.isdigit() else []
    for path, line in [*known, *places, *_scope(error)]:
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
    """Whether it had not ended at the time limit: the runtime notices every other hang by itself."""
    return error.kind == "hang" and error.fault is None


def _scope(error: ErrorInfo) -> list[tuple[str, int]]:
    """Where the scope begins that holds too much."""
    if error.fault is None or "ring" not in error.fault.fields:
        return []
    file, line = error.fault.fields.get("file"), error.fault.fields.get("line")
    return [(file, line)] if isinstance(file, str) and isinstance(line, int) and line else []


def _named_line(source: Path, error: ErrorInfo) -> int:
    """The one line of the orchestration that has the report's text, or asks for what was refused; else 0."""
    asked = (_ASKED.get(error.fault.kind) if error.fault else None) or f'"{error.message}"'
    lines = read_source(source).splitlines()
    found = [number for number, text in enumerate(lines, 1) if asked in text]
    return found[0] if len(found) == 1 else 0


def _tail(path: str) -> str:
    """The last two parts of a path: debug information has paths of the machine that compiled."""
    return "/" + "/".join(Path(path).parts[-2:]).lstrip("/")


def _body_line(source: Path, spins: bool) -> int:
    """Where the function begins that does the kernel's work; of one that `spins`, the loop, if it is clear which."""
    try:
        wrapper = read_wrapper(source, source.name)
    except ArtifactError:
        return 0
    body = (wrapper.called.start, wrapper.called.end) if wrapper.called else wrapper.entry
    if spins and body and (loop := _endless(wrapper.code.code, *body)) is not None:
        return wrapper.code.line(loop)
    return wrapper.called.line if wrapper.called else wrapper.code.line(wrapper.entry[0]) if wrapper.entry else 0


def _loop_around(source: Path, line: int) -> int:
    """The loop that a kernel was in when its time was over: the innermost one, or the only one without a step; the line
    itself where it was in none."""
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
    """Where loops begin and end, outer ones first: at the brace, or the semicolon, that closes the body."""
    found = []
    for match in _LOOP.finditer(code):
        end = matching(code, match.end() - 1) + 1
        body = end + len(code[end:]) - len(code[end:].lstrip())
        last = matching(code, body) + 1 if code[body : body + 1] == "{" else code.find(";", body)
        found.append((match.start(), last))
    return found


def _endless(code: str, start: int, end: int) -> int | None:
    """Where the loop is that has no end: the one that says so, else that never steps, else the only one; None where
    there are several."""
    loops = [found.start() for found in _LOOP.finditer(code, start, end)]
    kinds = [[at for at in loops if pattern.match(code, at)] for pattern in (_NO_END, _NO_STEP)]
    found = next(filter(None, (*kinds, loops)), [])
    return found[0] if len(found) == 1 else None
