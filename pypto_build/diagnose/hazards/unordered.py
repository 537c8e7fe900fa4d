"""Findings on unordered accesses to the same bytes, with the declaration that would order them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pypto_build.artifact.instruction_sites import InstructionPosition
from pypto_build.diagnose.findings import Edit, Finding, Related
from pypto_build.diagnose.hazards.conflicts import Conflict
from pypto_build.diagnose.hazards.context import Context
from pypto_build.diagnose.hazards.record import WRITE


def kind_of(context: Context, conflict: Conflict) -> str:
    """Return the kind of a conflict in the order of submission: RAW, WAR or WAW."""
    first, second = (bool(context.record.regions["kind"][r] & WRITE) for r in (conflict.first, conflict.second))
    return "WAW" if first and second else "RAW" if first else "WAR"


def line_of(context: Context, conflict: Conflict) -> str:
    """Return one line about a conflict, for the details of another finding."""
    one, other = (int(context.record.regions["task"][r]) for r in (conflict.first, conflict.second))
    span = context.bytes_in(conflict.buffer, conflict.begin, conflict.end)
    kind = kind_of(context, conflict)
    return f"{kind}: nothing orders {context.title(other)} after {context.title(one)}, both at {span}"


def task_findings(context: Context, conflicts: Iterable[Conflict]) -> Iterator[Finding]:
    """Yield findings on conflicts between tasks. Conflicts that the same edit would order share one finding.

    Without an edit, conflicts of the same pair of declarations share one.
    """
    groups: dict[tuple[object, ...], list[Conflict]] = {}
    for conflict in conflicts:
        one, other = conflict.first, conflict.second
        key = (kind_of(context, conflict), *_declaration(context, one), *_declaration(context, other))
        groups.setdefault(key, []).append(conflict)
    merged: dict[tuple[object, ...], list[Conflict]] = {}
    for key, group in groups.items():
        edits, _ = _order_them(context, kind_of(context, group[0]), *_ends(context, group[0]))
        merged.setdefault(tuple(edits) or key, []).extend(group)
    for group in merged.values():
        yield _between(context, group)


def _ends(context: Context, conflict: Conflict) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return task and argument of both sides of a conflict."""
    one, other = (
        (int(context.record.regions["task"][r]), context.argument_of(r)) for r in (conflict.first, conflict.second)
    )
    return one, other


def _declaration(context: Context, region: int) -> tuple[object, ...]:
    number = int(context.record.regions["task"][region])
    site = context.site(number)
    return (tuple(context.task(number).kernels), context.argument_of(region), site.line if site else 0)


def _between(context: Context, group: list[Conflict]) -> Finding:
    conflict = group[0]
    regions = context.record.regions
    (one, index_one), (other, index_other) = _ends(context, conflict)
    where_one, where_other = context.position_of(conflict.first), context.position_of(conflict.second)
    kind = kind_of(context, conflict)
    edits, hint = _order_them(context, kind, (one, index_one), (other, index_other))
    did = {"RAW": ("writes", "reads"), "WAR": ("reads", "overwrites"), "WAW": ("writes", "writes")}[kind]
    given = context.site_arg(other, index_other)
    more = len({(int(regions["task"][c.first]), int(regions["task"][c.second])) for c in group})
    related = [
        Related(where_one.path, where_one.line, f"{where_one.instruction} of task {one}"),
        Related(where_other.path, where_other.line, f"{where_other.instruction} of task {other}"),
    ]
    first_given = context.site_arg(one, index_one)
    if first_given:
        related.insert(0, Related(context.orchestration, first_given.line, f"task {one} declares it here"))
    return Finding(
        rule=f"hazards/{kind.lower()}",
        message=f"{context.title(one)} {did[0]} {context.tensor(one, index_one)} and {context.title(other)} {did[1]} "
        f"it ({context.bytes_in(conflict.buffer, conflict.begin, conflict.end)}); nothing orders the two",
        path=context.orchestration if given else where_other.path,
        line=given.line if given else where_other.line,
        hint=hint,
        detail=(f"declared {context.method(one, index_one)} and {context.method(other, index_other)}",)
        + ((f"and {more - 1} more such pairs of tasks",) if more > 1 else ()),
        tasks=(one, other),
        kernel=context.kernel(other, int(regions["member"][conflict.second])),
        related=tuple(related),
        edits=tuple(edits),
    )


def _order_them(context: Context, kind: str, one: tuple[int, int], other: tuple[int, int]) -> tuple[list[Edit], str]:
    """Return the edits of declarations that order two tasks, and the hint.

    They follow from the rules of the runtime. A read depends on earlier writers, an existing output does not, and only
    INOUT and outputs count as writers.
    """
    first, second = context.argument(*one), context.argument(*other)
    wanted: list[tuple[tuple[int, int], str]] = []
    if context.task(one[0]).manual or context.task(other[0]).manual:
        return [], "the tasks are in a manual scope: name the first one in set_dependencies of the second"
    if first.manual or second.manual:
        return _without_manual(context), "let the runtime track the tensor: create it without manual_dep"
    if first.tag == "NO_DEP":
        wanted.append((one, "inout" if kind == "WAR" else "output"))
    elif kind == "WAR" and first.tag == "INPUT":
        wanted.append((one, "inout"))
    if second.tag == "NO_DEP":
        wanted.append((other, "input" if kind == "RAW" else "inout"))
    elif second.tag in ("OUTPUT", "OUTPUT_EXISTING"):
        wanted.append((other, "inout"))
    if not wanted:
        return [], f"make task {other[0]} depend on task {one[0]} with add_dep"
    edits = [edit for where, to in wanted if (edit := context.change_method(*where, to))]
    words = [f"task {where[0]} {context.tensor(*where)} as add_{to}" for where, to in wanted]
    return edits, f"declare {' and '.join(words)}" + ("; or keep readers apart with add_dep" if kind == "WAR" else "")


def _without_manual(context: Context) -> list[Edit]:
    """Return the edit that creates a tensor without manual_dep, if exactly one line uses manual_dep."""
    old = "/*manual_dep=*/true"
    lines = [number for number, text in enumerate(context.lines, 1) if old in text]
    return [Edit(context.orchestration, lines[0], old, "/*manual_dep=*/false")] if len(lines) == 1 else []


def unit_findings(context: Context, conflicts: Iterable[Conflict]) -> Iterator[Finding]:
    """Yield findings on conflicts inside a task, one for each pair of lines."""
    groups: dict[tuple[InstructionPosition, InstructionPosition, bool], list[Conflict]] = {}
    for conflict in conflicts:
        positions = sorted(
            (context.position_of(r) for r in (conflict.first, conflict.second)), key=lambda p: (p.path, p.line)
        )
        same_block = len({int(context.record.regions["block"][r]) for r in (conflict.first, conflict.second)}) == 1
        groups.setdefault((positions[0], positions[1], same_block), []).append(conflict)
    for (_, _, same_block), group in groups.items():
        yield _within(context, group, same_block)


def _within(context: Context, group: list[Conflict], same_block: bool) -> Finding:
    regions = context.record.regions

    def unit(region: int) -> tuple[int, int]:
        return int(regions["block"][region]), int(regions["member"][region])

    def units_of(conflict: Conflict) -> list[tuple[int, int]]:
        return sorted((unit(conflict.first), unit(conflict.second)))

    # The order of recording differs from run to run; the minimum reports the same conflict every time.
    conflict = min(group, key=units_of)
    number = int(regions["task"][conflict.first])
    pair = sorted((conflict.first, conflict.second), key=lambda r: (not regions["kind"][r] & WRITE, unit(r)))
    writer, other = context.position_of(pair[0]), context.position_of(pair[1])
    both = bool(regions["kind"][pair[1]] & WRITE)
    index = context.argument_of(pair[0])
    units = [context.member(r) for r in pair]
    rule, hint = (
        ("lanes", "hand the bytes over through a pipe (TPUSH, TPOP), or offset them by get_subblockid()")
        if same_block
        else ("blocks", "offset what each block writes by get_block_idx(args), or meet at a SYNCALL before")
    )
    return Finding(
        rule=f"hazards/{rule}",
        message=f"{context.title(number)}: {units[0]} writes {context.tensor(number, index)} "
        f"({writer.instruction}) while {units[1]} {'writes' if both else 'reads'} the same bytes "
        f"({other.instruction}), {context.bytes_in(conflict.buffer, conflict.begin, conflict.end)}",
        path=writer.path,
        line=writer.line,
        hint=hint,
        detail=(f"{len(group)} such pairs",) if len(group) > 1 else (),
        tasks=(number,),
        kernel=context.kernel(number, int(regions["member"][pair[0]])),
        related=(Related(other.path, other.line, f"{other.instruction} of {units[1]}"),) if other != writer else (),
    )
