"""Locates faults of the orchestration's own arguments: finds the wrong line in its text where possible."""

from __future__ import annotations

import re
from pathlib import Path

from pypto_build.artifact.files import read_text
from pypto_build.artifact.interface import OrchestrationInterface
from pypto_build.facts.faults import FaultKind
from pypto_build.replay.verdict import ErrorInfo


def at_entry(error: ErrorInfo, artifact: Path, orchestration: OrchestrationInterface) -> str:
    """Return the message of a run's fault, prefixed with place and function if it is about the entry's arguments."""
    message, fault = error.message, error.fault
    if fault is None or error.line:
        return message
    if fault.kind == FaultKind.ENTRY_ARGUMENT:
        access = rf"\.{re.escape(str(fault.fields.get('name')))}\(\s*{fault.fields.get('index')}\s*\)"
        pattern, function = access, orchestration.function_name
    elif fault.kind == FaultKind.EXPECTED_ARGUMENTS:
        pattern = rf"expected_arg_count\s*=\s*{fault.fields.get('expected')}\b"
        function = orchestration.config_name
    else:
        return message
    try:
        text = read_text(artifact / orchestration.source, errors="replace")
    except OSError:
        text = ""
    found = re.search(pattern, text)
    line = f":{text.count(chr(10), 0, found.start()) + 1}" if found else ""
    return f"{orchestration.source}{line}: {function}: {message}"
