"""Findings on wrong arguments: a tensor of another element type than the kernel reads, one tensor for two outputs,
or a tensor that is too small.

The orchestration is at fault in all of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.findings import Finding, Level, Related
from pypto_build.diagnose.hazards.context import Context
from pypto_build.diagnose.hazards.record import TaskRecord
from pypto_build.diagnose.lint.arguments import alike
from pypto_build.diagnose.lint.wrapper import Unpacked, read_wrapper
from pypto_build.facts.dtypes import torch_name

_OUTPUTS = ("OUTPUT", "OUTPUT_EXISTING")


def passed_findings(context: Context, level: Level) -> Iterator[Finding]:
    """Yield one finding for each kernel and argument, on the first task with the mistake."""
    told: set[tuple[tuple[int, ...], int]] = set()
    for task in context.record.tasks:
        if task.number < 0:
            continue
        for index in range(len(task.args)):
            says = _same_output(context, task, index) or _other_type(context, task, index)
            if says and (tuple(task.kernels), index) not in told:
                told.add((tuple(task.kernels), index))
                yield _finding(context, task, index, level, *says)


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
    read, given = torch_name(kind.ctype) if kind else None, torch_name(task.args[index].dtype)
    if kind is None or not read or not given or alike(given, read):
        return None
    name = _origin(context, task.args[index].key) or context.tensor(task.number, index)
    return "argument-dtype", f"gets {name} ({given}) as argument {index}, and '{kind.name}' is {read}"


def too_small(context: Context, number: int, message: str) -> Finding | None:
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
        f"gets {name} of {size} bytes as argument {index}, and touches {end} ({message.partition(':')[0]}); "
        f"{taker} gets {its} of {_size(other, at)} bytes{'' if at == index else f' as argument {at}'}"
    )
    finding = _finding(context, task, index, "error", "out-of-bounds", says)
    line = _shape_line(context, number, index)
    if not line:
        return finding
    passed = Related(context.orchestration, finding.line, f"{name} is passed here")
    hint = f"make {name} as large as what the kernel works on, or have the kernel clamp it"
    return msgspec.structs.replace(finding, line=line, hint=hint, related=(passed, *finding.related))


def _size(task: TaskRecord, index: int) -> int:
    low, high = task.args[index].span
    return high - low


def _shape_line(context: Context, number: int, index: int) -> int:
    """Return the line of the orchestration that says the shape of an allocated tensor or a view, or 0."""
    argument = context.site_arg(number, index)
    text = "\n".join(context.lines)

    def find(pattern: str) -> tuple[str, ...]:
        match = re.search(pattern, text)
        return match.groups() if match else ()

    variable = re.escape(argument.variable) if argument else ""
    names = find(rf"\b{variable}\s*=\s*\w+\.view\((\w+)")
    if output := find(rf"\b{variable}\s*=\s*(\w+)\.get_ref\((\d+)\)"):
        infos = find(rf"\b{output[0]}\s*=\s*alloc_tensors\(([^)]*)\)")
        listed = [info.strip() for info in infos[0].split(",")] if infos else []
        slot = int(output[1])
        names = find(rf"\bTensorCreateInfo\s+{re.escape(listed[slot])}\(\s*(\w+)") if slot < len(listed) else ()
    pattern = re.compile(rf"\b{re.escape(names[0])}\[\d*\]\s*=") if names else None
    return next((line for line, row in enumerate(context.lines, 1) if pattern and pattern.search(row)), 0)


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
            given = context.site_arg(task.number, index) if task.number >= 0 and arg.key == key else None
            if given is None or not given.variable.isidentifier():
                continue
            line = context.declared_at(given.variable)
            source = re.search(r"=\s*(\w+)\s*;", context.lines[line - 1]) if line else None
            return f"'{(source[1] if source else given.variable).removeprefix('ext_')}'"
    return ""


def _finding(context: Context, task: TaskRecord, index: int, level: Level, rule: str, says: str) -> Finding:
    given = context.site_arg(task.number, index)
    site = context.site(task.number)
    assigned = _assigned(context, given.variable) if given else []
    return Finding(
        rule=f"hazards/{rule}",
        message=f"{context.title(task.number)} {says}",
        path=context.orchestration,
        line=given.line if given else site.line if site else 0,
        hint="pass the tensor that the kernel's argument stands for",
        tasks=(task.number,),
        kernel=context.kernels(task.number),
        related=tuple(
            Related(context.orchestration, line, f"'{given.variable}' is assigned here") for line in assigned if given
        ),
        level=level,
    )


def _assigned(context: Context, variable: str) -> list[int]:
    """Return the lines that assign a variable."""
    pattern = re.compile(rf"^\s*{re.escape(variable)}\s*=(?!=)")
    return [number for number, text in enumerate(context.lines, 1) if pattern.match(text)]
