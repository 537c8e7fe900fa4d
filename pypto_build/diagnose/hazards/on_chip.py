"""Findings on errors of single accesses: on-chip memory, order of pipes, bounds of global memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from pypto_build.artifact.files import read_source
from pypto_build.artifact.instruction_sites import InstructionPosition
from pypto_build.device.run import RunRules
from pypto_build.diagnose.findings import Edit, Finding, Level, Related
from pypto_build.diagnose.hazards.context import Array, Context, cut
from pypto_build.diagnose.hazards.record import CheckError, TaskRecord
from pypto_build.facts.accesses import READ, WRITE

# Findings on rules of the device that kernels break, by their text or by the operands of a run.

#: Kinds of rules of which the checked run itself says more.
_OF_THE_RUN = ("flag", "pipe", "capacity")


def rule_findings(context: Context, arch: str) -> Iterator[Finding]:
    """Yield one finding for each call and rule that it breaks, with the first operands that did."""
    artifact, document = context.artifact, context.record.document
    rules = RunRules({kernel.func_id: kernel.source for kernel in artifact.kernels}, artifact.root, arch)
    by_text = (one for one in rules.broken_by_text() if one.rule not in _OF_THE_RUN)
    for one in (*by_text, *rules.broken(document.sites, document.executed)):
        hint = "see docs/lookup/device-rules.md for this rule"
        yield Finding(f"rules/{one.rule}", one.message, one.path, one.line, hint=hint)


# Findings on loads of global memory that no task writes, a source of NaN in the results.

#: The kind of error that the runtime reports for a load of memory that is unwritten.
KIND = "unwritten"


@dataclass(frozen=True)
class _Load:
    """A load of unwritten bytes: ``missing`` is their first address, end and number.

    ``writes`` are the regions that write other bytes of the buffer.
    """

    error: CheckError
    region: int
    buffer: int
    missing: tuple[int, int, int]
    writes: Array


def unwritten_findings(context: Context, level: Level) -> Iterator[Finding]:
    """Yield one finding for all loads of bytes that the same stores leave out.

    Bytes that are written after the load belong to another finding, an unordered access.
    """
    groups: dict[tuple[InstructionPosition, ...], list[_Load]] = {}
    for load in sorted(_loads(context), key=lambda load: load.error.task):
        written = {context.position_of(region) for region in load.writes.tolist()}
        positions = sorted(written or {context.position(load.error.site)}, key=lambda at: (at.path, at.line))
        groups.setdefault(tuple(positions), []).append(load)
    for group in groups.values():
        yield _unwritten_finding(context, group, level)


def _loads(context: Context) -> Iterator[_Load]:
    regions, of_region = context.record.regions, context.buffers.of_region
    for error in context.record.errors:
        if error.kind != KIND:
            continue
        part = context.record.regions_of(error.task)
        mine = part.start + np.flatnonzero((regions["site"][part] == error.site) & (regions["kind"][part] & READ > 0))
        for buffer in np.unique(of_region[mine]).tolist():
            reads = mine[of_region[mine] == buffer]
            writes = np.flatnonzero((of_region == buffer) & (regions["kind"] & WRITE > 0))
            missing = _missing(regions, reads, writes) if buffer >= 0 else None
            if missing:
                yield _Load(error, int(reads[0]), buffer, missing, writes)
                break


def _missing(regions: Array, reads: Array, writes: Array) -> tuple[int, int, int] | None:
    """Return first address, end and number of the bytes that are read but not written, or None."""
    segments = cut(regions[np.concatenate((reads, writes))])
    left = segments.left_over(len(reads))
    return segments.span(left) if len(left) else None


def _unwritten_finding(context: Context, group: list[_Load], level: Level) -> Finding:
    first = group[0]
    error, position = first.error, context.position(first.error.site)
    begin, end, size = first.missing
    stores: dict[tuple[str, int], Related] = {}
    for region in first.writes.tolist():
        at = context.position_of(region)
        title = context.title(context.record.task_of[region])
        related = Related(at.path, at.line, f"{title} writes the other bytes here ({at.instruction})")
        stores.setdefault((at.path, at.line), related)
    others = dict.fromkeys((load.error.task, context.position(load.error.site)) for load in group[1:])
    more = [Related(at.path, at.line, f"{context.title(task)} also reads unwritten bytes here") for task, at in others]
    variable = context.site_arg(error.task, context.argument_of(first.region))
    created = context.declared_at(variable.expression) if variable and not stores else 0
    if variable and created:
        return _never(context, group, variable.expression, created, level)
    return Finding(
        rule="hazards/unwritten",
        message=(
            f"{context.title(error.task)}: {position.instruction} reads {size} bytes of "
            f"{context.tensor(error.task, context.argument_of(first.region))} "
            f"that no task writes; they are among {context.bytes_in(first.buffer, begin, end)}"
        ),
        path=position.path,
        line=position.line,
        hint="write all of these bytes first"
        + (" (a store of another task leaves them out)" if stores else "")
        + ", or load only the bytes that are written",
        level=level,
        tasks=tuple(dict.fromkeys(load.error.task for load in group)),
        kernel=context.kernel(error.task, error.member),
        related=(*stores.values(), *more[:6]),
    )


def _never(context: Context, group: list[_Load], variable: str, line: int, level: Level) -> Finding:
    """Return the finding on a tensor that is created, but written by no task."""
    readers: dict[tuple[str, int], Related] = {}
    for load in group:
        at = context.position(load.error.site)
        readers.setdefault(
            (at.path, at.line),
            Related(at.path, at.line, f"{context.title(load.error.task)} reads the tensor here ({at.instruction})"),
        )
    return Finding(
        rule="hazards/unwritten",
        message=f"no task writes the tensor '{variable}', but {context.title(group[0].error.task)} reads it",
        path=context.orchestration,
        line=line,
        hint="submit a task that writes the tensor before the tasks that read it",
        level=level,
        tasks=tuple(dict.fromkeys(load.error.task for load in group)),
        kernel=context.kernel(group[0].error.task, group[0].error.member),
        related=tuple(readers.values())[:6],
    )


_HINTS = {
    "unplaced": "give it one with TASSIGN before its first use",
    "valid-region": "keep the valid rows and columns within the tile's shape",
    "outside-tile": "keep offset and extent within the tile's shape",
    "capacity": "place the tile at a lower address, or make it smaller",
    "misaligned": "place the tile at a multiple of 32 bytes",
    "never-written": "write it first (TLOAD, TEXPANDS, TFILLPAD), or shrink the valid region to what was written",
    "unordered-pipes": "let the later pipe wait for the earlier one",
    "no-barrier": "put a pipe_barrier(PIPE_V) before it",
    "scratch": "give the earlier instruction a scratch tile of its own, at bytes that hold nothing",
    "trap": "look at the operands: the values before were ordinary ones",
    "flags": "set each flag once for each wait, on every way through the kernel",
    "stale-load": "let the store be over and visible before: pipe_barrier of its pipe, then dsb(DSB_DDR)",
    "unclean-load": "write the line back before (dcci), and wait for that (dsb)",
    "stale-read": "let the store be visible (dsb), and drop the line (dcci) before the read",
    "lost-store": "fetch the line anew (dcci) before it is written, or keep the two stores in lines of their own",
    "unclean-store": "end the kernel with dcci of what it wrote and dsb(DSB_DDR), or store by TSTORE",
    "unfinished-store": "end the kernel with pipe_barrier(PIPE_ALL), or let the scalar pipe wait for the store",
    "out-of-bounds": "keep the view's offset, shape and strides inside the tensor",
}


def error_findings(context: Context) -> Iterator[Finding]:
    """Yield one finding for each position and kind of error."""
    errors: dict[tuple[str, object, object], CheckError] = {}
    for error in context.record.errors:
        if error.kind == KIND:
            continue
        key = (error.kind, *_subject(context, error))
        earlier = errors.get(key)
        errors[key] = error if earlier is None or _first(context, error) < _first(context, earlier) else earlier
    for error in errors.values():
        yield _finding(context, error)


def _first(context: Context, error: CheckError) -> tuple[int, str, int]:
    position = context.position(error.site)
    return error.task, position.path, position.line


def _subject(context: Context, error: CheckError) -> tuple[object, object]:
    """Return the key that distinguishes errors of one kind: the misplaced tile, else the positions."""
    if error.tile:
        return context.record.sites[error.site].kernel, error.tile
    return context.position(error.site), error.other_site >= 0 and context.position(error.other_site)


def _finding(context: Context, error: CheckError) -> Finding:
    position = context.position(error.site)
    message = _with_name(error.message, context.record.sites[error.site].instruction, position.instruction)
    if error.markers:
        message = re.sub(r"tensor argument (\d+)", lambda match: context.tensor(error.task, int(match[1])), message)
    edits: tuple[Edit, ...] = ()
    related: tuple[Related, ...] = ()
    if error.other_site >= 0:
        other = context.position(error.other_site)
        related = (Related(other.path, other.line, f"{other.instruction} is here"),)
        message = _with_name(message, context.record.sites[error.other_site].instruction, other.instruction)
    if position.line:
        edits = _edits(context, error, position.path, position.line)
    if error.kind == "out-of-bounds" and (smaller := _too_small(context, error.task, error.message)):
        here = Related(position.path, position.line, f"{position.instruction} is here")
        return msgspec.structs.replace(smaller, related=(here, *smaller.related))
    kind = "hazards" if error.kind == "out-of-bounds" else "memory" if error.markers else "check"
    rule = f"{kind}/{error.kind}"
    return Finding(
        rule=rule,
        message=f"{context.title(error.task)}: {message}",
        path=position.path,
        line=position.line,
        hint=_HINTS.get(error.kind, "look at this instruction"),
        detail=(f"{error.count} times",) if error.count > 1 else (),
        tasks=(error.task,),
        kernel=context.kernel(error.task, error.member),
        related=related,
        edits=edits,
    )


def _too_small(context: Context, number: int, message: str) -> Finding | None:
    """Return the finding that a task gets a tensor which is too small, where an access leaves it by ``message``.

    The access fits into what another task of the same kernels gets, or covers another argument of the task as a whole.
    """
    match = re.search(r"bytes (-?\d+) to (\d+) of tensor argument (\d+)", message)
    begin, end, index = map(int, match.groups()) if match else (-1, 0, -1)
    task = context.task(number)
    if not match or begin or context.site_arg(number, index) is None or index >= len(task.args):
        return None
    others = [
        (other, index)
        for other in context.record.tasks
        if 0 <= other.number != number and other.kernels == task.kernels and _size(other, index) >= end
    ]
    others += [(task, other) for other in range(len(task.args)) if _size(task, other) == end]
    if not others:
        return None
    other, at = others[0]
    name, its, size = context.tensor(number, index), context.tensor(other.number, at), _size(task, index)
    taker = f"task {other.number}" if other.number != number else "it"
    says = (
        f"gets {name} of {size} bytes as argument {index}, but accesses {end} bytes ({message.partition(':')[0]}); "
        f"{taker} gets {its} of {_size(other, at)} bytes{'' if at == index else f' as argument {at}'}"
    )
    added, line = context.site_arg(number, index), _shape_line(context, number, index)
    passed = added.line if added else 0
    return Finding(
        "hazards/out-of-bounds",
        f"{context.title(number)} {says}",
        context.orchestration,
        line or passed,
        f"enlarge {name} to what the kernel accesses, or limit the kernel to its size",
        tasks=(number,),
        kernel=context.kernels(number),
        related=(Related(context.orchestration, passed, f"{name} is passed here"),) if line and passed else (),
    )


def _size(task: TaskRecord, index: int) -> int:
    low, high = task.args[index].span
    return high - low


def _shape_line(context: Context, number: int, index: int) -> int:
    """Return the line of the orchestration that says the shape of an allocated tensor or a view, or 0."""
    argument = context.site_arg(number, index)
    return context.source.shape_lines.get(argument.expression, 0) if argument else 0


def _with_name(message: str, reported: str, name: str) -> str:
    """Return `message` with the reported name of an instruction replaced by that of the debug information."""
    return re.sub(rf"(?<!\w){re.escape(reported)}(?!\w)", lambda _: name, message, count=1)


def _edits(context: Context, error: CheckError, path: str, line: int) -> tuple[Edit, ...]:
    """Return the edit that orders the instruction after the earlier one, or nothing if it is not certain."""
    if error.kind not in ("unordered-pipes", "no-barrier", "flags") and not error.markers:
        return ()
    text = read_source(context.artifact.root / path)
    statement = text.splitlines()[line - 1].strip()
    if error.markers:
        return _markers(text.splitlines(), error, path, line)
    first, second = f"PIPE_{error.other_pipe}", f"PIPE_{error.pipe}"
    if error.kind == "no-barrier":
        return (Edit(path, line, statement, f"pipe_barrier(PIPE_V); {statement}"),)
    if error.kind == "unordered-pipes" and error.flag >= 0:
        return (Edit(path, line, statement, f"wait_flag({first}, {second}, EVENT_ID{error.flag}); {statement}"),)
    if error.kind == "unordered-pipes":
        number = _free_event(text, first, second)
        pair = f"({first}, {second}, EVENT_ID{number});"
        return (Edit(path, line, statement, f"set_flag{pair} wait_flag{pair} {statement}"),) if number >= 0 else ()
    if error.other_flag >= 0:
        return (Edit(path, line, f"EVENT_ID{error.flag}", f"EVENT_ID{error.other_flag}"),)
    if error.flag >= 0:
        return (Edit(path, line, statement, f"set_flag({first}, {second}, EVENT_ID{error.flag}); {statement}"),)
    return ()


def _markers(lines: list[str], error: CheckError, path: str, line: int) -> tuple[Edit, ...]:
    """Return the edit that inserts the markers before the access, or at the end of the function that stores."""
    if error.at_end:
        line = next((number for number in range(line + 1, len(lines) + 1) if lines[number - 1].startswith("}")), 0)
        back = line - 1
        while line and back > 0 and not lines[back - 1].strip():
            back -= 1
        line = back if line and lines[back - 1].strip() == "return;" else line
    statement = lines[line - 1].strip() if line else ""
    return (Edit(path, line, statement, f"{error.markers} {statement}"),) if statement else ()


def _free_event(text: str, first: str, second: str) -> int:
    """Return the first event id that a kernel does not use between two pipes, or -1 if it uses all eight."""
    taken = set(re.findall(rf"_flag\({first}, {second}, EVENT_ID(\d)\)", text))
    return next((number for number in range(8) if str(number) not in taken), -1)
