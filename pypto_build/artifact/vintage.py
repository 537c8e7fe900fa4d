"""Recognizes the vintage of an orchestration from its text: the generation of the upstream C++ API that it uses.

The generations and their marks follow simpler's history; PyPTO's output follows them by days.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from .cpp.text import without_comments
from .errors import ArtifactError


class Vintage(msgspec.Struct, frozen=True):
    """One generation of the API; ``name`` is the month or day it began.

    ``marks`` are regular expressions that must all match the orchestration, ``absent`` are those that must not.
    """

    name: str
    api: str
    marks: tuple[str, ...]
    absent: tuple[str, ...] = ()


#: Newest first; the first that fits wins.
VINTAGES: tuple[Vintage, ...] = (
    Vintage("2026-08", "ChipTaskArgs", (r"\b(ChipTaskArgs|CoreTaskArgs\w*|ChipTensor)\b",)),
    Vintage("2026-06", "L2TaskArgs", (r"\b(L2TaskArgs|L0TaskArgs\w*)\b",)),
    Vintage(
        "2026-05",
        "Arg + rt_submit_*",
        (r"\b(ChipStorageTaskArgs|from_tensor_arg|Arg|ArgWithDeps)\b", r"\brt_submit_\w+|\bPTO2ScopeMode\b"),
        (r"\bpto2_rt_submit_\w+",),
    ),
    Vintage("2026-04", "pto2_rt_submit_*", (r"\b(ChipStorageTaskArgs|from_tensor_arg)\b",)),
    Vintage("2026-03-26", "from_task_arg", (r"\bfrom_task_arg\b|\bTaskArg\s*\*",)),
    Vintage("2026-03-24", "OrchArg", (r"\bOrchArg\s*\*",)),
    Vintage("2026-03-22", "PTOParam", (r"\buint64_t\s*\*\s*\w+\s*,\s*int\s+\w+",), (r"\bPTO2Runtime\s*\*",)),
    Vintage(
        "2026-03-17",
        "PTOParam with PTO2Runtime*",
        (r"\bPTO2Runtime\s*\*", r"\bint\s+orch_thread_num\b", r"\.add_(input|output|inout|scalar)\s*\("),
    ),
    Vintage(
        "2026-03-11", "PTOParam[] + pto2_rt_submit_aiv_task", (r"\bPTO2Runtime\s*\*", r"\bpto2_rt_submit_ai[cv]_task\b")
    ),
    Vintage(
        "2026-02-12",
        "pto2_rt_submit_task with a kernel name",
        (r"\bpto2_rt_submit_task\s*\(\s*\w+\s*,\s*\w+\s*,\s*PTO2_WORKER_\w+\s*,\s*\"",),
    ),
    Vintage("2026-02-24", "pto2_rt_submit_task", (r"\bpto2_rt_submit_task\b|\bPTO2Runtime\s*\*",)),
)


def detect_vintage(text: str, path: str | Path = "orchestration") -> Vintage:
    """Return the vintage of an orchestration's C++ ``text``; comments do not count.

    Raises a usage error naming ``path`` if no vintage fits.
    """
    code = without_comments(text)
    for vintage in VINTAGES:
        if all(re.search(mark, code) for mark in vintage.marks) and not any(re.search(m, code) for m in vintage.absent):
            return vintage
    newest = VINTAGES[0]
    raise ArtifactError(
        path,
        f"unknown API version: the file uses neither {newest.api} ({newest.name}) nor an older orchestration API",
        "check that ORCHESTRATION.source names the orchestration that the compiler wrote",
    )
