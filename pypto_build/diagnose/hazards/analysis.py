"""Analysis of the record of a checked run, which gives findings."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from pypto_build.artifact import Artifact, ArtifactError, detect_vintage
from pypto_build.artifact.derive import derive
from pypto_build.artifact.files import read_source
from pypto_build.diagnose.findings import Finding, Level
from pypto_build.diagnose.hazards.buffers import find_buffers
from pypto_build.diagnose.hazards.conflicts import between_tasks, within_tasks
from pypto_build.diagnose.hazards.context import Context
from pypto_build.diagnose.hazards.declarations import find_misuse, misuse_findings, untouched_findings
from pypto_build.diagnose.hazards.lines import barrier_findings, line_findings
from pypto_build.diagnose.hazards.on_chip import error_findings
from pypto_build.diagnose.hazards.order import Order
from pypto_build.diagnose.hazards.outputs import output_findings
from pypto_build.diagnose.hazards.passed import passed_findings
from pypto_build.diagnose.hazards.record import Record
from pypto_build.diagnose.hazards.unordered import line_of, task_findings, unit_findings
from pypto_build.diagnose.hazards.unwritten import unwritten_findings
from pypto_build.diagnose.hazards.wasted import wasted_findings
from pypto_build.diagnose.lint import arguments
from pypto_build.diagnose.lint.subject import Subject

#: The largest number of conflicts that are collected.
_MOST_CONFLICTS = 20_000


def analyse(
    artifact: Artifact,
    record: Record,
    declared: Iterable[Finding],
    *,
    wrong: Level | None = None,
    right: Container[str] = (),
    of_chip: bool = False,
) -> list[Finding]:
    """Return all findings of one checked run. ``declared`` are the findings from the declarations alone.

    ``wrong`` is the level of loads of unwritten memory. It is None if the outputs are right, because kernels may load
    whole tiles and use a part. ``right`` are the names of the correct outputs. With ``of_chip``, other ranks may write
    memory and wait for tasks, so findings on missing writes and waits are left out.
    """
    buffers = find_buffers(record)
    context = Context(artifact, record, buffers)
    order = Order(record.tasks, record.document.host_waits)
    pairs: set[tuple[int, int]] = set()
    conflicts = []
    for conflict in between_tasks(record, buffers, order, pairs):
        numbers = {int(record.regions["task"][region]) for region in (conflict.first, conflict.second)}
        if not numbers <= record.signalling:
            conflicts.append(conflict)
        if len(conflicts) >= _MOST_CONFLICTS:
            break
    inside = list(within_tasks(record, buffers))
    misuse = find_misuse(context)
    context.resolve(
        [int(record.regions["site"][r]) for c in [*conflicts, *inside] for r in (c.first, c.second)]
        + [int(record.regions["site"][regions[0]]) for regions in misuse.values()]
        + [site for error in record.errors for site in (error.site, error.other_site) if site >= 0]
    )
    blamed = {
        (int(record.regions["task"][region]), index): region
        for (_, index, wrong), regions in misuse.items()
        for region in reversed(regions)
        if wrong != "beyond"
    }
    consequences: dict[int, list[str]] = {}
    left = []
    for conflict in conflicts:
        ends = [(int(record.regions["task"][r]), context.argument_of(r)) for r in (conflict.first, conflict.second)]
        causes = [blamed[end] for end in ends if end in blamed]
        for region in causes:
            consequences.setdefault(region, []).append(line_of(context, conflict))
        if not causes:
            left.append(conflict)
    findings = [
        *error_findings(context),
        *passed_findings(context, "error" if wrong else "note"),
        *misuse_findings(context, misuse, consequences),
        *task_findings(context, left),
        *unit_findings(context, inside),
        *line_findings(context, order),
        *barrier_findings(context),
        *declared,
    ]
    if of_chip:
        return findings
    if record.document.complete and not any(finding.level == "error" for finding in findings):
        findings += output_findings(context, right)
    if wrong and not any(finding.level == "error" for finding in findings):  # else likely a consequence
        findings += unwritten_findings(context, wrong)
    if record.document.complete:
        findings += [*untouched_findings(context), *wasted_findings(context, order, pairs)]
    return findings


def declared_findings(artifact: Artifact) -> Iterator[Finding]:
    """Compare signature, orchestration and wrapper: count, order and types of arguments.

    Directions are not compared here, since the run shows them.
    """
    source = artifact.orchestration.source
    try:
        vintage = detect_vintage(read_source(source), source)
        subject = Subject(artifact, vintage, derive(artifact), "a2a3sim")
    except ArtifactError:
        return
    for rule in arguments.ALWAYS:
        yield from (finding for finding in rule(subject) if finding.rule != "lint/signature-direction")
