"""A checked run that crashed or hung, as a finding at a line: where it crashed, else the kernel or the submission."""

from __future__ import annotations

import re
from pathlib import Path

from pypto_build.artifact import Artifact, ArtifactError
from pypto_build.artifact.files import read_source
from pypto_build.diagnose.findings import Finding
from pypto_build.diagnose.lint.wrapper import read_wrapper
from pypto_build.diagnose.recorded.sites import read_sites
from pypto_build.replay.verdict import ErrorInfo, Verdict

#: `#2 kernel_entry (kernels/aiv/x.cpp:12)` in the stack of a crash.
_FRAME = re.compile(r"#\d+ .*? \((?P<path>[^()]+):(?P<line>\d+)\b[^()]*(?:\([^()]*\))?\)")
#: `scope at orchestration/x.cpp:12`.
_SCOPE = re.compile(r"\(scope at (?P<path>[^()]+):(?P<line>\d+)\)")
#: What the orchestration calls to ask for what a message refuses.
_ASKED = {"blocks together": "set_require_sync_start("}
_NEVER_RAN = "dependency-deadlock"


def fault_finding(artifact: Artifact, verdict: Verdict) -> Finding | None:
    """What ended the run; None where it was nothing that the artifact did."""
    error = verdict.error
    if error is None or verdict.status not in ("runtime_error", "hang"):
        return None
    path, line = _place(artifact, error)
    return Finding(
        f"hazards/{'hang' if verdict.status == 'hang' else 'fault' if error.kind == 'runtime_error' else error.kind}",
        error.message,
        path,
        line,
        error.hint,
        detail=tuple(error.detail),
        tasks=(int(error.task),) if error.task is not None and error.task.isdigit() else (),
        kernel=error.kernel or "",
    )


def _place(artifact: Artifact, error: ErrorInfo) -> tuple[str, int]:
    files = [artifact.orchestration.source, *(kernel.source for kernel in artifact.kernels)]
    for match in [*map(_FRAME.match, error.detail), _SCOPE.search(error.message)]:
        file = next((one for one in files if match and one.as_posix().endswith(_tail(match["path"]))), None)
        if match and file:
            return _short(artifact, file), int(match["line"])
    if error.kernel is None:
        return _short(artifact, artifact.orchestration.source), _named_line(artifact.orchestration.source, error)
    kernel = next((kernel for kernel in artifact.kernels if kernel.name == error.kernel), None)
    if kernel is None:
        return "", 0
    if _NEVER_RAN in error.message:
        sites = [site.line for site in read_sites(artifact.orchestration.source) if kernel.func_id in site.func_ids]
        return _short(artifact, artifact.orchestration.source), sites[0] if len(sites) == 1 else 0
    return _short(artifact, kernel.source), _body_line(kernel.source, kernel.name)


def _named_line(source: Path, error: ErrorInfo) -> int:
    """The one line of the orchestration that has the report's text, or asks for what was refused; else 0."""
    asked = next((call for words, call in _ASKED.items() if words in error.message), f'"{error.message}"')
    lines = read_source(source).splitlines()
    found = [number for number, text in enumerate(lines, 1) if asked in text]
    return found[0] if len(found) == 1 else 0


def _tail(path: str) -> str:
    """The last two parts of a path: debug information has paths of the machine that compiled."""
    return "/" + "/".join(Path(path).parts[-2:]).lstrip("/")


def _body_line(source: Path, name: str) -> int:
    """Where the function begins that does the kernel's work."""
    try:
        wrapper = read_wrapper(source, name)
    except ArtifactError:
        return 0
    return wrapper.called.line if wrapper.called else wrapper.code.line(wrapper.entry[0]) if wrapper.entry else 0


def _short(artifact: Artifact, path: Path) -> str:
    return path.relative_to(artifact.root).as_posix() if path.is_relative_to(artifact.root) else str(path)
