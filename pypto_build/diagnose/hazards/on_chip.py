"""Findings on errors of single accesses: on-chip memory, order of pipes, bounds of global memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from pypto_build.artifact.files import read_source
from pypto_build.diagnose.findings import Edit, Finding, Related
from pypto_build.diagnose.hazards.context import Context
from pypto_build.diagnose.hazards.passed import too_small
from pypto_build.diagnose.hazards.record import CheckError
from pypto_build.diagnose.hazards.unwritten import KIND as UNWRITTEN

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
        if error.kind == UNWRITTEN:
            continue
        key = (error.kind, *_subject(context, error))
        known = errors.get(key)
        errors[key] = error if known is None or _first(context, error) < _first(context, known) else known
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
        message = re.sub(r"tensor argument (\d+)", lambda found: context.tensor(error.task, int(found[1])), message)
    edits: tuple[Edit, ...] = ()
    related: tuple[Related, ...] = ()
    if error.other_site >= 0:
        other = context.position(error.other_site)
        related = (Related(other.path, other.line, f"{other.instruction} is here"),)
        message = _with_name(message, context.record.sites[error.other_site].instruction, other.instruction)
    if position.line:
        edits = _edits(context, error, position.path, position.line)
    if error.kind == "out-of-bounds" and (smaller := too_small(context, error.task, error.message)):
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


def _with_name(message: str, reported: str, known: str) -> str:
    """Return `message` with the reported name of an instruction replaced by that of the debug information."""
    return re.sub(rf"(?<!\w){re.escape(reported)}(?!\w)", lambda _: known, message, count=1)


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
    """Return the edit that puts the markers before the access, or before the storing function returns."""
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
