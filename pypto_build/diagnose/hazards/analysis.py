"""Analysis of the record of a checked run, which gives findings."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator

import numpy as np

from pypto_build.artifact import Artifact, ArtifactError, detect_vintage
from pypto_build.artifact.cpp.wrapper import KernelFile, Unpacked
from pypto_build.artifact.derive import derive
from pypto_build.artifact.files import read_source
from pypto_build.diagnose.findings import Edit, Finding, Level, Related
from pypto_build.diagnose.hazards.conflicts import (
    Order,
    barrier_findings,
    between_tasks,
    line_findings,
    line_of,
    task_findings,
    unit_findings,
    within_tasks,
)
from pypto_build.diagnose.hazards.context import Array, Context, find_buffers
from pypto_build.diagnose.hazards.on_chip import error_findings, rule_findings, unwritten_findings
from pypto_build.diagnose.hazards.outputs import output_findings
from pypto_build.diagnose.hazards.record import Record, TaskRecord
from pypto_build.diagnose.lint import arguments
from pypto_build.diagnose.lint.arguments import alike
from pypto_build.diagnose.lint.subject import Subject, read_wrapper
from pypto_build.facts.accesses import READ, WRITE
from pypto_build.facts.dtypes import torch_name

# Findings on arguments whose accesses contradict their declaration in the orchestration.

#: (kernels of the task, argument, kind of contradiction) -> regions that show it.
Misuse = dict[tuple[tuple[int, ...], int, str], list[int]]


def find_misuse(context: Context) -> Misuse:
    """Find the regions that contradict the declarations. Each region counts for its first possible argument."""
    misuses: Misuse = {}
    for region in np.flatnonzero(~_as_declared(context.record)).tolist():
        task = context.task(context.record.task_of[region])
        arguments = context.candidates(region)
        if not arguments:
            continue
        kind = context.record.kind_of[region]
        wrong = ""
        if kind & WRITE and not any(task.args[i].writes for i in arguments):
            wrong = "written"
        elif kind & READ and not any(task.args[i].reads for i in arguments):
            wrong = "read"
        elif not any(_holds(context, region, i) for i in arguments):
            wrong = "beyond"
        if wrong:
            misuses.setdefault((tuple(task.kernels), arguments[0], wrong), []).append(region)
    return misuses


def _as_declared(record: Record) -> Array:
    """For each region, return whether an argument contains it and is declared for such an access."""
    table, regions, ends = record.arguments, record.regions, record.ends
    reads, writes = (regions["kind"] & READ) > 0, (regions["kind"] & WRITE) > 0
    fine = np.zeros(len(regions), dtype=bool)
    for some, rows in record.with_arguments():
        inside = (table.begin[rows] <= regions["base"][some]) & (ends[some] <= table.end[rows])
        fine[some] |= inside & (table.reads[rows] | ~reads[some]) & (table.writes[rows] | ~writes[some])
    return fine


def _holds(context: Context, region: int, index: int) -> bool:
    low, high = context.spans(context.record.task_of[region])[index]
    begin, end = context.record.extent_of[region]
    return low <= begin and end <= high


def misuse_findings(context: Context, misuse: Misuse, consequences: dict[int, list[str]]) -> Iterator[Finding]:
    """Yield one finding for each kernel, argument and kind of contradiction. `consequences` are lines by region."""
    for (_, index, wrong), regions in misuse.items():
        yield _FINDING[wrong](context, context.record.task_of[regions[0]], index, regions, consequences)


def _detail(context: Context, regions: list[int], consequences: dict[int, list[str]]) -> tuple[str, ...]:
    tasks = list(dict.fromkeys(int(n) for n in context.record.regions["task"][regions]))
    lines = [f"by {len(tasks)} tasks: {', '.join(map(str, tasks[:8]))}{' ...' if len(tasks) > 8 else ''}"]
    effects = list(dict.fromkeys(line for region in regions for line in consequences.get(region, [])))
    return tuple((lines if len(tasks) > 1 else []) + effects[:6])


def _change(
    context: Context, rule: str, number: int, index: int, to: str, regions: list[int], message: str, why: str,
    consequences: dict[int, list[str]],
) -> Finding:  # fmt: skip
    argument = context.site_arg(number, index)
    edit = context.change_method(number, index, to)
    position = context.position_of(regions[0])
    return Finding(
        rule=f"hazards/{rule}",
        message=message,
        path=context.orchestration if argument else position.path,
        line=argument.line if argument else position.line,
        hint=f"declare it add_{to}: {why}",
        detail=_detail(context, regions, consequences),
        tasks=tuple(dict.fromkeys(int(n) for n in context.record.regions["task"][regions]))[:16],
        kernel=context.kernel(number, int(context.record.regions["member"][regions[0]])),
        related=(Related(position.path, position.line, f"{position.instruction} accesses the bytes here"),)
        if argument
        else (),
        edits=(edit,) if edit else (),
    )


def _written(
    context: Context, number: int, index: int, regions: list[int], consequences: dict[int, list[str]]
) -> Finding:
    position = context.position_of(regions[0])
    part = context.record.regions_of(number)
    also_read = any(
        context.record.regions["kind"][region] & READ and index in context.candidates(region)
        for region in range(part.start, part.stop)
    )
    message = (
        f"{context.title(number)} writes {context.tensor(number, index)} ({position.instruction}), "
        f"but declares it {context.method(number, index)}, so later tasks do not wait for this "
        "write"
    )
    to = "inout" if also_read else "output"
    return _change(context, "written-input", number, index, to, regions, message, "the kernel writes it", consequences)


def _read(context: Context, number: int, index: int, regions: list[int], consequences: dict[int, list[str]]) -> Finding:
    position = context.position_of(regions[0])
    trip = _round_trip(context, number, regions)
    extra = ", after it has written it: a round trip through global memory" if trip else ""
    message = (
        f"{context.title(number)} reads {context.tensor(number, index)} ({position.instruction}){extra}, "
        f"but declares it {context.method(number, index)}, so the task does not wait for tasks that "
        "write these bytes"
    )
    return _change(
        context, "read-output", number, index, "inout", regions, message, "the kernel reads it too", consequences
    )


def _round_trip(context: Context, number: int, regions: list[int]) -> bool:
    """Return whether the task writes the buffer before it reads it. Regions are in the order of their first access."""
    part = context.record.regions_of(number)
    first = min(regions)
    return any(
        context.record.regions["kind"][region] & WRITE
        and context.buffers.of_region[region] == context.buffers.of_region[first]
        for region in range(part.start, first)
    )


def _beyond(
    context: Context, number: int, index: int, regions: list[int], consequences: dict[int, list[str]]
) -> Finding:
    position = context.position_of(regions[0])
    low, high = context.argument(number, index).span
    begin, end = context.record.extent_of[regions[0]]
    kernel = context.kernel(number, int(context.record.regions["member"][regions[0]]))
    argument, site = context.site_arg(number, index), context.site(number)
    is_view = argument is not None and argument.expression in context.source.bases
    view = context.declared_at(argument.expression, site.line) if argument and site and is_view else 0
    if argument and view and begin == low:  # kernel and view start at the same byte, so the view is too small
        return Finding(
            rule="hazards/out-of-bounds",
            message=(
                f"the view '{argument.expression}' has {high - low} bytes, but {context.title(number)} "
                f"accesses {end - low} bytes ({position.instruction})"
            ),
            path=context.orchestration,
            line=view,
            hint="enlarge the view to what the kernel accesses, or limit the kernel to the view",
            detail=_detail(context, regions, consequences),
            tasks=(number,),
            kernel=kernel,
            related=(Related(position.path, position.line, f"{position.instruction} accesses the bytes here"),),
        )
    return Finding(
        rule="hazards/out-of-bounds",
        message=(
            f"{context.title(number)}: {position.instruction} accesses bytes {begin - low} to {end - low} "
            f"of {context.tensor(number, index)}, which has only {high - low} bytes"
        ),
        path=position.path,
        line=position.line,
        hint="keep the view's offset, shape and strides inside the tensor",
        detail=_detail(context, regions, consequences),
        tasks=(number,),
        kernel=kernel,
        related=(Related(context.orchestration, argument.line, "the tensor is declared here"),) if argument else (),
    )


_FINDING = {"written": _written, "read": _read, "beyond": _beyond}


def untouched_findings(context: Context) -> Iterator[Finding]:
    """Yield findings on arguments that are declared, but never touched by a task or named by its kernels' code."""
    touched: dict[tuple[int, ...], set[int]] = {}
    first: dict[tuple[int, ...], int] = {}
    for task in context.record.tasks:
        if task.number < 0:
            continue
        kernels = tuple(task.kernels)
        first.setdefault(kernels, task.number)
        seen = touched.setdefault(kernels, set())
        if len(seen) < len(task.args):
            part = context.record.regions_of(task.number)
            for region in range(part.start, part.stop):
                seen.update(context.candidates(region))
    sources = {kernel.func_id: kernel.source for kernel in context.artifact.kernels}
    for kernels, number in first.items():
        indices = [
            index
            for index, arg in enumerate(context.task(number).args)
            if index not in touched.get(kernels, ()) and arg.tag != "NO_DEP"
        ]
        paths = [sources[kernel] for kernel in dict.fromkeys(kernels) if kernel in sources]
        files = [KernelFile(read_source(path)) for path in paths] if indices else []
        for index in indices if files else ():
            if not any(file.uses(index) for file in files):
                yield _untouched(context, number, index)


def _untouched(context: Context, number: int, index: int) -> Finding:
    argument = context.site_arg(number, index)
    output = context.argument(number, index).tag in ("OUTPUT", "OUTPUT_EXISTING")
    edit: Edit | None = context.change_method(number, index, "no_dep")
    return Finding(
        rule="hazards/untouched",
        message=f"{context.title(number)} never touches {context.tensor(number, index)}, which is declared "
        f"{context.method(number, index)}",
        path=context.orchestration,
        line=argument.line if argument else 0,
        hint="write the argument in the kernel, or remove it from the submission"
        if output
        else "remove the argument or declare it add_no_dep, unless it only orders tasks",
        level="warning" if output else "note",
        tasks=(number,),
        kernel=context.kernels(number),
        edits=(edit,) if edit else (),
    )


# Findings on wrong arguments: a tensor of another element type than the kernel reads, or one tensor for two outputs.
# The orchestration is at fault in both cases.

_OUTPUTS = ("OUTPUT", "OUTPUT_EXISTING")


def passed_findings(context: Context, level: Level) -> Iterator[Finding]:
    """Yield one finding for each kernel and argument, on the first task with the mistake."""
    seen: set[tuple[tuple[int, ...], int]] = set()
    for task in context.record.tasks:
        if task.number < 0:
            continue
        for index in range(len(task.args)):
            says = _same_output(context, task, index) or _other_type(context, task, index)
            if says and (tuple(task.kernels), index) not in seen:
                seen.add((tuple(task.kernels), index))
                yield _passed_finding(context, task, index, level, *says)


def _same_output(context: Context, task: TaskRecord, index: int) -> tuple[str, str] | None:
    """Return rule and message if an output is the same memory as an earlier output argument, else None."""
    mine = task.args[index]
    for before in range(index):
        other = task.args[before]
        if mine.tag in _OUTPUTS and other.tag in _OUTPUTS and (mine.key, mine.span) == (other.key, other.span):
            kind = _reads(context, task, index)
            type_ = f"; '{kind.name}' is {torch_name(kind.ctype)}" if kind and torch_name(kind.ctype) else ""
            name = f"{_origin(context, mine.key) or context.tensor(task.number, index)} ({torch_name(mine.dtype)})"
            return "one-for-two", f"gets {name} for two outputs, arguments {before} and {index}{type_}"
    return None


def _other_type(context: Context, task: TaskRecord, index: int) -> tuple[str, str] | None:
    """Return rule and message if the kernel reads a tensor as another element type, else None."""
    kind = _reads(context, task, index)
    read, passed = torch_name(kind.ctype) if kind else None, torch_name(task.args[index].dtype)
    if kind is None or not read or not passed or alike(passed, read):
        return None
    name = _origin(context, task.args[index].key) or context.tensor(task.number, index)
    return "argument-dtype", f"gets {name} ({passed}) as argument {index}, and '{kind.name}' is {read}"


def _reads(context: Context, task: TaskRecord, index: int) -> Unpacked | None:
    """Return the statement in which a kernel of the task unpacks an argument, or None."""
    for kernel in context.artifact.kernels:
        if kernel.func_id not in task.kernels:
            continue
        try:
            unpacked = read_wrapper(kernel.source, kernel.source.name).unpacked
        except ArtifactError:
            continue
        for item in unpacked:
            if item.slot == index and item.kind == "tensor" and item.ctype:
                return item
    return None


def _origin(context: Context, key: tuple[int, int]) -> str:
    """Return the name of a buffer: the first variable that passes it to a task, or the variable it is declared from."""
    for task in context.record.tasks:
        for index, arg in enumerate(task.args):
            argument = context.site_arg(task.number, index) if task.number >= 0 and arg.key == key else None
            if argument is None or not argument.expression.isidentifier():
                continue
            return f"'{context.source.bases.get(argument.expression, argument.expression).removeprefix('ext_')}'"
    return ""


def _passed_finding(context: Context, task: TaskRecord, index: int, level: Level, rule: str, says: str) -> Finding:
    argument = context.site_arg(task.number, index)
    site = context.site(task.number)
    lines = context.source.assigned.get(argument.expression, []) if argument else []
    return Finding(
        rule=f"hazards/{rule}",
        message=f"{context.title(task.number)} {says}",
        path=context.orchestration,
        line=argument.line if argument else site.line if site else 0,
        hint="pass the tensor that this argument of the kernel expects",
        tasks=(task.number,),
        kernel=context.kernels(task.number),
        related=tuple(
            Related(context.orchestration, line, f"'{argument.expression}' gets its value here")
            for line in lines
            if argument
        ),
        level=level,
    )


# Findings on explicit dependencies that order no accesses to the same bytes.

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
        message=f"{context.title(other)} waits for {context.title(one)} because of an explicit dependency, {why}",
        path=context.orchestration,
        line=line,
        hint="remove the dependency, which only costs time",
        level="note",
        tasks=(one, other),
        kernel=context.kernels(other),
        edits=(Edit(context.orchestration, line, statement, ""),) if line else (),
    )


def _statement(context: Context, submit: int) -> tuple[int, str]:
    """Return the last line above a submission that adds dependencies, with its statement. (0, "") if there is none."""
    for number in range(submit, max(submit - 40, 0), -1):
        text = context.lines[number - 1]
        if match := _ADD_DEP.search(text):
            return number, match[0]
        if number < submit and "rt_submit" in text:
            break
    return 0, ""


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
    arch: str = "",
) -> list[Finding]:
    """Return all findings of one checked run. ``declared`` are the findings from the declarations alone.

    ``wrong`` is the level of loads of unwritten memory. It is None if the outputs are right, because kernels may load
    whole tiles and use a part. ``right`` are the names of the correct outputs. With ``of_chip``, other ranks may write
    memory and wait for tasks, so findings on missing writes and waits are left out. ``arch`` has the rules that
    executed instructions are held against; there are none without.
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
        *(rule_findings(context, arch) if arch else ()),
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
    if record.document.complete and not has_errors(findings):
        findings += output_findings(context, right)
    if wrong and not has_errors(findings):  # else likely a consequence
        findings += unwritten_findings(context, wrong)
    if record.document.complete:
        findings += [*untouched_findings(context), *wasted_findings(context, order, pairs)]
    return findings


def has_errors(findings: Iterable[Finding]) -> bool:
    """Return whether there are errors of which others may be a consequence here; a device rule matters on a device."""
    return any(finding.level == "error" and not finding.rule.startswith("rules/") for finding in findings)


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
