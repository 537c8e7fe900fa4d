"""What a compilation wrote besides the programs: warnings of passes, errors and hints in `report/`, times."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from pypto_build.diagnose.findings import Finding, Level
from pypto_build.diagnose.passes.dumps import DIRECTORY

_LOGGED = re.compile(r"(?P<path>\S+?)(?::(?P<line>\d+))?(?::\d+)?: (?P<level>warning|error): (?P<text>.*)")
_HINT = re.compile(r"\[perf_hint (?P<code>[^\]]+)\] (?P<text>.*?)(?: at (?P<path>\S+?):(?P<line>\d+)(?::\d+)?)?\Z")
_FAILED = re.compile(r"  \[(?P<name>[^\]]+)\]\Z")
_DETAIL_LINES = 6


def report_findings(root: Path) -> Iterator[Finding]:
    """Warnings of passes, functions that could not be turned into code, hints on performance (as notes)."""
    for path in sorted((root / DIRECTORY).glob("*.log")):
        yield from _logged(path, f"{DIRECTORY}/{path.name}")
    yield from _errors(root / "report" / "codegen_errors.txt")
    yield from _hints(root / "report" / "perf_hints.log")


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []


def _logged(path: Path, name: str) -> Iterator[Finding]:
    for number, line in enumerate(_lines(path), 1):
        match = _LOGGED.match(line)
        if match:
            level: Level = "error" if match["level"] == "error" else "warning"
            dump = f"{DIRECTORY}/{Path(match['path']).name}"
            known = match["line"] and (path.parent / Path(match["path"]).name).is_file()
            place, at = (dump, int(match["line"])) if known else (name, number)
            yield Finding("passes/log", f"after {path.stem}: {match['text']}", place, at, level=level)


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
            place, at = (match["path"], int(match["line"])) if match["path"] else (f"report/{path.name}", number)
            yield Finding(f"passes/{match['code']}", match["text"], place, at, level="note")


def times(root: Path) -> dict[str, float]:
    """Seconds by the name of a pass, from `report/pipeline_profile.json`; the sum for one that runs twice."""
    try:
        profile = json.loads((root / "report" / "pipeline_profile.json").read_text(encoding="utf-8"))
        stages = [one for stage in profile["stages"] if stage["name"] == "passes" for one in stage["children"]]
        found: dict[str, float] = {}
        for one in stages:
            found[str(one["name"])] = found.get(str(one["name"]), 0.0) + float(one["seconds"])
        return found
    except (OSError, ValueError, KeyError, TypeError):
        return {}
