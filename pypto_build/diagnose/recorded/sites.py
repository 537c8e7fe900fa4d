"""Submissions in an orchestration: source lines, argument variables, and names of tensors from them.

The source is read as text, because it only provides names. Ambiguous tasks and tensors stay without a name.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pypto_build.diagnose.recorded.graph import Task, TaskGraph, text_or_nothing

_KINDS = {
    "input": ("INPUT",),
    "output": ("OUTPUT", "OUTPUT_EXISTING"),
    "inout": ("INOUT",),
    "no_dep": ("UNKNOWN", "NO_DEP"),
}
_TOKEN = re.compile(
    r"\b(?:CoreTaskArgs\w*|L0TaskArgs\w*|ArgWithDeps|Arg)(?:<\d+>)?\s+(?P<declared>\w+)\s*;"
    r"|\b(?P<variable>\w+)\s*\.\s*add_(?P<method>input|output|inout|no_dep)\s*\((?P<values>[^;]{0,4000})\)\s*;"
    r"|\bMixedKernels\s+(?P<mixed>\w+)\s*=\s*\{(?P<lanes>[^}]{0,999})\}"
    r"|\b(?:pto2_)?rt_submit_(?:aic_|aiv_)?task\s*\(\s*(?P<kernel>\w+)\s*,\s*(?P<args>\w+)\s*\)"
)
_ALIAS = re.compile(
    r"\b(?:ChipTensor|Tensor|auto)(?:\s+|\s*&\s*)(\w+)\s*=\s*(\w+)\s*(?:;|\.\s*(?:view|slice|reshape|transpose|permute)\s*\()"
)
_ASSIGNED = re.compile(r"^[ \t]*(\w+)\s*=(?!=)", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)


@dataclass(frozen=True)
class SiteArg:
    """One tensor argument: the method it is added with, the variable, and the line."""

    method: str
    variable: str
    line: int


@dataclass(frozen=True)
class SubmitSite:
    """One submit call."""

    line: int
    func_ids: tuple[int, ...]
    args: tuple[SiteArg, ...]

    def fits(self, task: Task) -> bool:
        """Return whether `task` may have been submitted here, by its kernels and the kinds of its arguments."""
        kinds = [arg.kind for arg in task.args]
        return set(self.func_ids) == set(task.func_ids) and (
            not kinds
            or (
                len(kinds) == len(self.args)
                and all(kind in _KINDS[arg.method] for kind, arg in zip(kinds, self.args, strict=True))
            )
        )


def read_sites(source: Path) -> list[SubmitSite]:
    """The submit calls of an orchestration, in the order of the text; empty if the file cannot be read."""
    text = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text_or_nothing(source))
    collected: dict[str, list[SiteArg]] = {}
    mixed: dict[str, tuple[int, ...]] = {}
    sites = []
    starts = [0] + [found.end() for found in re.finditer("\n", text)]
    for match in _TOKEN.finditer(text):
        line = bisect_right(starts, match.start())
        if match["declared"]:
            collected[match["declared"]] = []
        elif match["method"]:
            names = [part.strip() for part in match["values"].split(",")]
            collected.setdefault(match["variable"], []).extend(SiteArg(match["method"], name, line) for name in names)
        elif match["mixed"]:
            mixed[match["mixed"]] = _numbers(match["lanes"].split(","))
        else:
            func_ids = mixed.get(match["kernel"]) or _numbers([match["kernel"]])
            sites.append(SubmitSite(line, func_ids, tuple(collected.get(match["args"], ()))))
    return sites


def _numbers(words: Sequence[str]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(word) for word in map(str.strip, words) if word.isdecimal() and len(word) < 10))


def aliases(source: Path) -> dict[str, str]:
    """Variables that are views or other names of another variable."""
    text = _COMMENT.sub(" ", text_or_nothing(source))
    varying = set(_ASSIGNED.findall(text))
    return {match[1]: match[2] for match in _ALIAS.finditer(text) if match[1] not in varying}


def match_tasks(graph: TaskGraph, sites: Sequence[SubmitSite]) -> dict[int, SubmitSite]:
    """The site of each task where it is certain: only one fits, or as many tasks as sites fit, in order."""
    fitting: dict[tuple[SubmitSite, ...], list[int]] = {}
    for task in graph.tasks:
        candidates = tuple(site for site in sites if site.func_ids and site.fits(task))
        fitting.setdefault(candidates, []).append(task.id)
    matched: dict[int, SubmitSite] = {}
    for candidates, tasks in fitting.items():
        if len(candidates) == 1:
            matched.update(dict.fromkeys(tasks, candidates[0]))
        elif len(candidates) == len(tasks):
            matched.update(zip(tasks, candidates, strict=True))
    return matched


def tensor_names(graph: TaskGraph, matched: Mapping[int, SubmitSite], renamed: Mapping[str, str]) -> dict[int, str]:
    """Names of buffers by tensor id: the variable that most tasks hand them over under, views by what they are of."""
    votes: dict[int, Counter[str]] = {}
    for task in graph.tasks:
        site = matched.get(task.id)
        for arg, given in zip(task.args, site.args if site else (), strict=False):
            if arg.tensor is not None and given.variable.isidentifier():
                votes.setdefault(arg.tensor, Counter())[_base(given.variable, renamed)] += 1
    return {tensor: counted.most_common(1)[0][0].removeprefix("ext_") for tensor, counted in votes.items()}


def _base(name: str, renamed: Mapping[str, str]) -> str:
    seen = set()
    while name in renamed and name not in seen:
        seen.add(name)
        name = renamed[name]
    return name
