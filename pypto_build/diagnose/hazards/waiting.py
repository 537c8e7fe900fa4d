"""Finding on ranks that wait for each other, at the line of a waiting kernel."""

from __future__ import annotations

import re
from pathlib import Path

from pypto_build.artifact import ArtifactError, load_artifact
from pypto_build.artifact.distributed import load_distributed
from pypto_build.artifact.files import read_source
from pypto_build.artifact.interface import relative_source
from pypto_build.diagnose.findings import Finding, Related
from pypto_build.replay.verdict import ErrorInfo

_WAIT = re.compile(r"\bTWAIT\s*(?:<[^;>]{0,400}>)?\s*\(\s*[^,;]{1,400},\s*(?P<expected>[^,;]{1,200}?)\s*,")
_CAST = re.compile(r"^static_cast<\w+>\((\w+)\)$")
_CONSTANT = r"\bconst\s+\w+\s+{}\s*=\s*(-?\d{{1,10}})\s*;"


def ended_finding(artifact: Path, error: ErrorInfo) -> Finding:
    """Return the finding on the end of a run of several ranks. For a wait, it has the lines where the kernel waits."""
    path, lines = _waits(artifact, error)
    more = tuple(Related(path, line, "it waits here too") for line in lines[1:])
    return Finding(
        f"hazards/{error.kind}", error.message, path, lines[0] if lines else 0, error.hint, related=more,
        kernel=error.kernel or "",
    )  # fmt: skip


def _waits(artifact: Path, error: ErrorInfo) -> tuple[str, list[int]]:
    """Return the kernel in which the first rank waits, and its lines that wait for this value, else all waits."""
    fields = error.fault.fields if error.fault is not None else {}
    program, kernel, expected = (fields.get(name) for name in ("program", "kernel", "expected"))
    try:
        chip = load_distributed(artifact).chips[str(program)]
        source = next(known.source for known in load_artifact(chip).kernels if known.name == kernel)
        text = read_source(source)
    except (ArtifactError, KeyError, StopIteration):
        return "", []
    found = {text.count("\n", 0, match.start()) + 1: match["expected"] for match in _WAIT.finditer(text)}
    values = {line: _value(text, word) for line, word in found.items()}
    matching = [line for line, value in values.items() if value == expected] or list(found)
    return relative_source(source, artifact), matching


def _value(text: str, word: str) -> int | None:
    """Return the value of a word: a number, or a constant that the text defines. None if it is neither."""
    word = _CAST.sub(r"\1", word)
    if word.isdigit():
        return int(word)
    constant = re.search(_CONSTANT.format(re.escape(word)), text)
    return int(constant[1]) if constant else None
