"""Reports of a compilation besides its programs: warnings of passes, errors and hints in `report/`, times."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import decode_json, read_bytes, read_text
from pypto_build.diagnose.findings import Finding, Level
from pypto_build.diagnose.passes.dumps import DIRECTORY

_LOGGED = re.compile(r"(?P<path>\S{1,400}?)(?::(?P<line>\d{1,9}))?(?::\d+)?: (?P<level>warning|error): (?P<text>.*)")
_HINT = re.compile(
    r"\[perf_hint (?P<code>[^\]]+)\] (?P<text>.*?)(?: at (?P<path>\S{1,400}?):(?P<line>\d{1,9})(?::\d+)?)?\Z"
)
_FAILED = re.compile(r"  \[(?P<name>[^\]]+)\]\Z")
_DETAIL_LINES = 6
_MAX_CHARACTERS = 4000


class _Pass(msgspec.Struct):
    name: str
    seconds: float


class _Stage(msgspec.Struct):
    name: str
    children: list[_Pass] = []


class _Profile(msgspec.Struct):
    stages: list[_Stage]


def report_findings(root: Path) -> Iterator[Finding]:
    """Warnings of passes, functions that could not be turned into code, hints on performance (as notes)."""
    for path in sorted((root / DIRECTORY).glob("*.log")):
        yield from _logged(path, f"{DIRECTORY}/{path.name}")
    yield from _errors(root / "report" / "codegen_errors.txt")
    yield from _hints(root / "report" / "perf_hints.log")


def _lines(path: Path) -> list[str]:
    try:
        return [line[:_MAX_CHARACTERS] for line in read_text(path, errors="replace").splitlines()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", "compile again") from None


def _logged(path: Path, name: str) -> Iterator[Finding]:
    for number, line in enumerate(_lines(path), 1):
        match = _LOGGED.match(line)
        if match:
            level: Level = "error" if match["level"] == "error" else "warning"
            dump = f"{DIRECTORY}/{Path(match['path']).name}"
            known = match["line"] and os.path.isfile(path.parent / Path(match["path"]).name)
            source, at = (dump, int(match["line"])) if known else (name, number)
            yield Finding("passes/log", f"after {path.stem}: {match['text']}", source, at, level=level)


def _errors(path: Path) -> Iterator[Finding]:
    lines = _lines(path)
    for index, line in enumerate(lines):
        match = _FAILED.match(line)
        if not match:
            continue
        rest = lines[index + 1 :]
        end = next((n for n, text in enumerate(rest) if text.startswith("=====") or _FAILED.match(text)), len(rest))
        said = [text.rstrip() for text in rest[:end] if text.strip()] or ["no reason given"]
        yield Finding(
            "passes/codegen",
            f"function '{match['name']}' could not be turned into code: {said[0].strip()}",
            f"report/{path.name}",
            index + 1,
            "look at this function in the last dump",
            detail=tuple(said[1 : _DETAIL_LINES + 1]),
            kernel=match["name"],
        )


def _hints(path: Path) -> Iterator[Finding]:
    for number, line in enumerate(_lines(path), 1):
        match = _HINT.match(line.strip())
        if match:
            source, at = (match["path"], int(match["line"])) if match["path"] else (f"report/{path.name}", number)
            yield Finding(f"passes/{match['code']}", match["text"], source, at, level="note")


def times(root: Path) -> dict[str, float]:
    """Seconds by the name of a pass, from `report/pipeline_profile.json`; the sum for one that runs twice."""
    try:
        profile = decode_json(read_bytes(root / "report" / "pipeline_profile.json"), _Profile)
    except (OSError, msgspec.MsgspecError):
        return {}
    found: dict[str, float] = {}
    for one in (one for stage in profile.stages if stage.name == "passes" for one in stage.children):
        found[one.name] = found.get(one.name, 0.0) + one.seconds
    return found
