"""Findings on explicit dependencies that order no accesses to the same bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pypto_build.diagnose.findings import Edit, Finding
from pypto_build.diagnose.hazards.context import Context
from pypto_build.diagnose.hazards.order import Order

#: The largest number of dependencies that are checked, since each is compared with the whole graph.
_MOST = 500

_ADD_DEP = re.compile(r"\b\w+\s*\.\s*(?:add_dep(?:_wait)?|set_dependencies(?:_with_kinds)?)\s*\([^;]{0,4000}\)\s*;")


def wasted_findings(context: Context, order: Order, pairs: set[tuple[int, int]]) -> Iterator[Finding]:
    """Yield one note for each line with an unnecessary dependency.

    All `pairs` of tasks (by position) stay ordered without it.
    """
    tasks = context.record.tasks
    if context.record.signalling:
        return
    explicit = [
        (producer, index) for index, direct in enumerate(order.direct) for producer, source in direct
        if source == "explicit"
    ]  # fmt: skip
    seen: set[int] = set()
    for producer, index in explicit[:_MOST]:
        if tasks[producer].number < 0 or tasks[index].number < 0:
            continue
        why = _wasted(order, producer, index, pairs)
        if not why:
            continue
        finding = _finding(context, tasks[producer].number, tasks[index].number, why)
        if finding.line not in seen:
            seen.add(finding.line)
            yield finding


def _wasted(order: Order, producer: int, index: int, pairs: set[tuple[int, int]]) -> str:
    """Return the reason why a dependency is unnecessary, or an empty text if it is needed."""
    before = order.ancestors[producer] | 1 << producer
    affected = [
        (one, other) for one, other in pairs if before >> one & 1 and (other == index or order.before(index, other))
    ]
    if not affected:
        return "though nothing that comes before it touches what comes after"
    rest = order.without(producer, index)
    if any(not rest.ordered(one, other) for one, other in affected):
        return ""
    return "though the tensors that they share order the two already"


def _finding(context: Context, one: int, other: int, why: str) -> Finding:
    site = context.site(other)
    line, statement = _statement(context, site.line if site else 0)
    return Finding(
        rule="hazards/wasted-dependency",
        message=f"{context.title(other)} waits for {context.title(one)} by an explicit dependency, {why}",
        path=context.orchestration,
        line=line,
        hint="take the dependency out: it only costs time",
        level="note",
        tasks=(one, other),
        kernel=context.kernels(other),
        edits=(Edit(context.orchestration, line, statement, ""),) if line else (),
    )


def _statement(context: Context, submit: int) -> tuple[int, str]:
    """Return the last line above a submission that adds dependencies, with its statement. (0, "") if there is none."""
    for number in range(submit, max(submit - 40, 0), -1):
        text = context.lines[number - 1]
        if found := _ADD_DEP.search(text):
            return number, found[0]
        if number < submit and "rt_submit" in text:
            break
    return 0, ""
