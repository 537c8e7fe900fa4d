"""Findings on arguments whose accesses contradict their declaration in the orchestration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pypto_build.artifact.files import read_source
from pypto_build.diagnose.findings import Edit, Finding, Related
from pypto_build.diagnose.hazards.context import Array, Context
from pypto_build.diagnose.hazards.record import READ, WRITE, Record

#: (kernels of the task, argument, kind of contradiction) -> regions that show it.
Misuse = dict[tuple[tuple[int, ...], int, str], list[int]]


def find_misuse(context: Context) -> Misuse:
    """Find the regions that contradict the declarations. Each region counts for its first possible argument."""
    found: Misuse = {}
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
            found.setdefault((tuple(task.kernels), arguments[0], wrong), []).append(region)
    return found


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
    given = context.site_arg(number, index)
    edit = context.change_method(number, index, to)
    position = context.position_of(regions[0])
    return Finding(
        rule=f"hazards/{rule}",
        message=message,
        path=context.orchestration if given else position.path,
        line=given.line if given else position.line,
        hint=f"declare it add_{to}: {why}",
        detail=_detail(context, regions, consequences),
        tasks=tuple(dict.fromkeys(int(n) for n in context.record.regions["task"][regions]))[:16],
        kernel=context.kernel(number, int(context.record.regions["member"][regions[0]])),
        related=(Related(position.path, position.line, f"{position.instruction} is here"),) if given else (),
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
        f"{context.title(number)} writes {context.tensor(number, index)} ({position.instruction}), which is declared "
        f"{context.method(number, index)}: later tasks do not wait for what it writes"
    )
    to = "inout" if also_read else "output"
    return _change(context, "written-input", number, index, to, regions, message, "the kernel writes it", consequences)


def _read(context: Context, number: int, index: int, regions: list[int], consequences: dict[int, list[str]]) -> Finding:
    position = context.position_of(regions[0])
    trip = _round_trip(context, number, regions)
    told = ", after it has written it: a round trip through global memory" if trip else ""
    message = (
        f"{context.title(number)} reads {context.tensor(number, index)} ({position.instruction}){told}; it is declared "
        f"{context.method(number, index)}, so the task waits for nobody who writes or uses these bytes"
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
    given, site = context.site_arg(number, index), context.site(number)
    view = context.declared_at(given.variable, site.line) if given and site and given.variable in context.views else 0
    if given and view and begin == low:  # kernel and view start at the same byte, so the view is too small
        return Finding(
            rule="hazards/out-of-bounds",
            message=f"the view '{given.variable}' has {high - low} bytes, and {context.title(number)} touches "
            f"{end - low} ({position.instruction})",
            path=context.orchestration,
            line=view,
            hint="make the view as large as what the kernel works on, or have the kernel clamp it",
            detail=_detail(context, regions, consequences),
            tasks=(number,),
            kernel=kernel,
            related=(Related(position.path, position.line, f"{position.instruction} is here"),),
        )
    return Finding(
        rule="hazards/out-of-bounds",
        message=f"{context.title(number)}: {position.instruction} touches bytes {begin - low} to {end - low} of "
        f"{context.tensor(number, index)}, which has {high - low} bytes",
        path=position.path,
        line=position.line,
        hint="keep the view's offset, shape and strides inside the tensor",
        detail=_detail(context, regions, consequences),
        tasks=(number,),
        kernel=kernel,
        related=(Related(context.orchestration, given.line, "declared here"),) if given else (),
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
        for index, arg in enumerate(context.task(number).args):
            if index in touched.get(kernels, ()) or arg.tag == "NO_DEP":
                continue
            files = [sources[kernel] for kernel in dict.fromkeys(kernels) if kernel in sources]
            if files and not any(_uses(file, index) for file in files):
                yield _untouched(context, number, index)


def _untouched(context: Context, number: int, index: int) -> Finding:
    given = context.site_arg(number, index)
    output = context.argument(number, index).tag in ("OUTPUT", "OUTPUT_EXISTING")
    edit: Edit | None = context.change_method(number, index, "no_dep")
    return Finding(
        rule="hazards/untouched",
        message=f"{context.title(number)} never touches {context.tensor(number, index)}, which is declared "
        f"{context.method(number, index)}",
        path=context.orchestration,
        line=given.line if given else 0,
        hint="write it, or take the argument out"
        if output
        else "take the argument out, or declare it add_no_dep, unless it is there to order tasks",
        level="warning" if output else "note",
        tasks=(number,),
        kernel=context.kernels(number),
        edits=(edit,) if edit else (),
    )


_WORD = re.compile(r"\w+")
_ASSIGNED = re.compile(r"\b(\w+)\s*=([^;]{0,4000});")
_UNPACKED = re.compile(r"\b(\w+)\s*=[^;]{0,999}?\bargs\s*\[\s*(\d{1,9})\s*\]")


def _uses(source: Path, index: int) -> bool:
    """Return whether a kernel's code may use argument `index`. It is False only if the code clearly does not.

    The wrapper unpacks args[index] and passes a pointer to the body by position. The body names its parameters.
    """
    text = re.sub(r"//[^\n]*", "", read_source(source))
    entry = text.find("kernel_entry")
    wrapper = text[text.find("{", entry) + 1 :] if entry >= 0 else ""
    names = {int(match[2]): match[1] for match in _UNPACKED.finditer(wrapper)}
    if index not in names:
        return entry < 0
    known = {names[index]}
    for match in _ASSIGNED.finditer(wrapper):
        if known.intersection(_WORD.findall(match[2])):
            known.add(match[1])
    call = _last_call(wrapper)
    if call is None:
        return True
    function, values = call
    if known.intersection(_WORD.findall(_without(wrapper, known, function))):
        return True
    positions = [i for i, value in enumerate(values) if known.intersection(_WORD.findall(value))]
    if not positions:
        return False
    body = re.search(rf"\b{function}\s*\(([^)]{{0,9999}})\)\s*\{{", text[:entry])
    if body is None:
        return True
    parameters = [re.escape(part.split()[-1].lstrip("*&")) for part in body[1].split(",") if part.strip()]
    end = text.find("\n}", body.end())
    return any(
        i >= len(parameters) or re.search(rf"\b{parameters[i]}\b", text[body.end() : end]) is not None
        for i in positions
    )


def _without(wrapper: str, known: set[str], function: str) -> str:
    """Return a wrapper without the assignments to ``known`` names, and without the calls of the body."""
    others = _ASSIGNED.sub(lambda match: "" if match[1] in known else match[0], wrapper)
    return re.sub(rf"^[ \t]*{function}\([^;]{{0,4000}}\);", "", others, flags=re.MULTILINE)


def _last_call(entry: str) -> tuple[str, list[str]] | None:
    """Return function and arguments of the call of the body, the last `name(a, b, ...);` of the wrapper."""
    calls = re.findall(r"^[ \t]*(\w+)\(([^;]{0,4000})\);", entry, re.MULTILINE)
    if not calls:
        return None
    function, values = calls[-1]
    return function, [value.strip() for value in values.split(",")]
