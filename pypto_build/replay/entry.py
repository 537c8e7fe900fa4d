"""Faults of the orchestration's own arguments: which line of it is wrong, as far as its text tells."""

from __future__ import annotations

import re
from pathlib import Path

from pypto_build.artifact.files import read_text
from pypto_build.artifact.interface import OrchestrationInterface

_ACCESS = re.compile(r"orch_args\.(tensor|scalar)\((\d+)\) is out of range")
_EXPECTED = re.compile(r"the orchestration expects (\d+) arguments")


def at_entry(message: str, artifact: Path, orchestration: OrchestrationInterface) -> str:
    """`message` of a run's fault, with place and function in front if it is about the entry's arguments."""
    if access := _ACCESS.search(message):
        pattern, function = rf"\.{access[1]}\(\s*{access[2]}\s*\)", orchestration.function_name
    elif expected := _EXPECTED.search(message):
        pattern, function = rf"expected_arg_count\s*=\s*{expected[1]}\b", orchestration.config_name
    else:
        return message
    try:
        text = read_text(artifact / orchestration.source, errors="replace")
    except OSError:
        text = ""
    found = re.search(pattern, text)
    line = f":{text.count(chr(10), 0, found.start()) + 1}" if found else ""
    return f"{orchestration.source}{line}: {function}: {message}"
