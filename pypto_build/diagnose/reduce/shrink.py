"""Smaller candidates, from the coarse to the fine. Every function yields attempts, and the first that is kept counts.

All attempts are edits of texts. The size of a tensor is replaced in all lines, and an operation is one line. The check
of modules or the compiler refuses a broken candidate, or it ends in another way.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from msgspec import structs

from pypto_build.artifact.shapes import row_major_strides
from pypto_build.diagnose.extract.tensors import Parameter
from pypto_build.diagnose.reduce.case import Case, Invalid
from pypto_build.diagnose.reduce.judge import Attempt, runs
from pypto_build.facts.tasks import Task, TaskArgument, TensorView
from pypto_build.replay.values import STORAGE, decode, is_float

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
_CONSTANT = re.compile(r"(arith\.constant )(\d+)( : index)")
_DIMENSION = re.compile(r"(?<=[<x])(\d+)(?=x)|((?:rows|cols|v_row|v_col)=)(\d+)")
_TILE = re.compile(r"\bTile<TileType::\w+, \w+, (\d+), (\d+),")
_PLACED = re.compile(r"\bTASSIGN\(\w+, (\w+)\)")
_SET = re.compile(r"\s*const int64_t (\w+) = \d+;")
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_DEFINES = re.compile(r"\s*(%[\w$.-]+) = ")
_VALUE = re.compile(r"%[\w$.-]+")
#: index, first, last, step
_LOOP = re.compile(r"\bscf\.for (%[\w$.-]+) = (?P<first>%[\w$.-]+) to (?P<last>%[\w$.-]+) step (?P<step>%[\w$.-]+)")
_IN_OUT = re.compile(r"pto\.\w+ ins\((%[\w$.-]+)[^:]*: (![^)]*)\) outs\((%[\w$.-]+) : (![^)]*)\)")


# --- blocks, scalars -------------------------------------------------------------------------------------------------


def blocks(case: Case) -> Iterator[Attempt]:
    """Fewer blocks of an SPMD launch."""
    for at, task in enumerate(case.tasks):
        for count in [n for n in (1, 2, 4, 8) if n < task.block_num]:
            smaller = structs.replace(task, block_num=count, together=task.together and count > 1)
            yield partial(_with_task, case, at, smaller)


def scalars(case: Case) -> Iterator[Attempt]:
    """Scalars that are zero, or one."""
    for at, task in enumerate(case.tasks):
        for index, arg in enumerate(task.args):
            if not arg.scalar:
                continue
            one = 0x3F800000 if arg.view.dtype == "float32" else 1
            for bits in [value for value in (0, one) if value != arg.bits and arg.bits != 0]:
                if bits == one and arg.bits == one:
                    continue
                args = (*task.args[:index], structs.replace(arg, bits=bits), *task.args[index + 1 :])
                yield partial(_with_task, case, at, structs.replace(task, args=args))


def _with_task(case: Case, at: int, task: Task) -> Case:
    return replace(case, tasks=(*case.tasks[:at], task, *case.tasks[at + 1 :]))


# --- sizes -----------------------------------------------------------------------------------------------------------


def sizes(case: Case) -> Iterator[Attempt]:
    """Yield attempts that replace the size of a tensor by a smaller number everywhere, the smallest first."""
    for number in sorted(_numbers(case), reverse=True):
        for smaller in [size for size in _SIZES if size < number]:
            for corner in (0, -1):
                yield partial(resized, case, number, smaller, corner)


def _numbers(case: Case) -> set[int]:
    """Sizes: extents of tensors, and what modules have as dimensions."""
    numbers = {extent for one in case.external for extent in one.shape}
    for _, lines in _modules(case):
        for line in lines:
            numbers |= {int(match[1] or match[3]) for match in _DIMENSION.finditer(line)}
    for code in case.by_hand:
        numbers |= {int(size) for line in code.clean for match in _TILE.finditer(line) for size in match.groups()}
    return {number for number in numbers if number > 1}


def resized(case: Case, number: int, smaller: int, corner: int) -> Case:
    """The case with ``smaller`` for ``number``; of data the first part is taken, or (corner -1) the last.

    Raises Invalid.
    """
    sizes = _numbers(case)
    changes = {number: smaller, number * number: smaller * smaller}
    changes |= {number * other: smaller * other for other in sizes if other != number and number * other not in sizes}
    renumbered = case
    for name in sorted(case.modules):
        lines = [_substituted(line, changes) for line in case.units[name].clean]
        if lines != list(case.units[name].clean):
            renumbered = renumbered.with_module(name, lines)
    for code in case.by_hand:
        lines = _substituted_text(code.clean, changes)
        if lines != list(code.clean):
            renumbered = renumbered.with_body(code.kernel.func_id, lines)
    shapes = {one.name: tuple(changes.get(extent, extent) for extent in one.shape) for one in case.parameters}
    parameters = {one.name: cropped(one, shapes[one.name], changes, corner) for one in case.parameters}
    uses = {
        (task, use.index): use for one in parameters.values() for task, use in one.uses
    }  # what each task is given now
    tasks = tuple(
        structs.replace(task, args=tuple(_argument(task.number, arg, uses, changes) for arg in task.args))
        for task in renumbered.tasks
    )
    return replace(renumbered, tasks=tasks, parameters=tuple(parameters.values()))


def _substituted(line: str, changes: Mapping[int, int]) -> str:
    line = _CONSTANT.sub(lambda m: f"{m[1]}{changes.get(int(m[2]), int(m[2]))}{m[3]}", line)
    return _DIMENSION.sub(lambda m: f"{m[2] or ''}{changes.get(int(m[1] or m[3]), int(m[1] or m[3]))}", line)


def _substituted_text(lines: Sequence[str], changes: Mapping[int, int]) -> list[str]:
    """Replace numbers in C++, except for addresses: smaller tiles still fit at the old addresses."""
    addresses = {match[1] for line in lines for match in _PLACED.finditer(line)}
    changed = []
    for line in lines:
        constant = _SET.match(line)
        if _PLACED.search(line) or (constant and constant[1] in addresses):
            changed.append(line)
        else:
            changed.append(_NUMBER.sub(lambda m: str(changes.get(int(m[0]), int(m[0]))), line))
    return changed


def _argument(
    number: int, arg: TaskArgument, uses: Mapping[tuple[int, int], TaskArgument], changes: Mapping[int, int]
) -> TaskArgument:
    if not arg.scalar:
        return uses[number, arg.index]
    return arg if arg.view.dtype.startswith("float") else structs.replace(arg, bits=changes.get(arg.bits, arg.bits))


def cropped(one: Parameter, shape: tuple[int, ...], changes: Mapping[int, int], corner: int) -> Parameter:
    """A parameter of a smaller shape, with views that are as much smaller."""
    if shape == one.shape:
        return one
    part = tuple(slice(old - new, old) if corner else slice(0, new) for old, new in zip(one.shape, shape, strict=True))
    initial = np.ascontiguousarray(one.initial.reshape(one.shape)[part]).reshape(-1)
    final = np.ascontiguousarray(one.final.reshape(one.shape)[part]).reshape(-1)
    uses = [(task, structs.replace(use, view=_view(use.view, one, shape, changes))) for task, use in one.uses]
    return replace(one, base=0, shape=shape, initial=initial, final=final, uses=uses)


def _view(view: TensorView, one: Parameter, shape: tuple[int, ...], changes: Mapping[int, int]) -> TensorView:
    """A view of the parameter's old shape in its new one. Raises Invalid where it has no place there."""
    old, new = row_major_strides(one.shape), row_major_strides(shape)
    left, offset = view.offset - one.base, 0
    for axis, (was, now) in enumerate(zip(one.shape, shape, strict=True)):
        index, left = divmod(left, old[axis]) if old[axis] else (0, left)
        offset += (index if was == now else index * now // was) * new[axis]
    strides = []
    for stride in view.strides:
        along = next((a for a, s in enumerate(old) if s and stride % s == 0), None)
        if along is None or stride // old[along] >= max(one.shape[along], 2):
            strides.append(changes.get(stride, stride))
        else:
            strides.append(stride // old[along] * new[along])
    extents = tuple(changes.get(extent, extent) for extent in view.shape)
    reach = offset + sum((n - 1) * s for n, s in zip(extents, strides, strict=True))
    if 0 not in extents and reach >= int(np.prod(shape, dtype=np.int64)):
        raise Invalid("a view does not fit into its tensor")
    return view._replace(offset=offset, shape=extents, strides=tuple(strides))


# --- modules ---------------------------------------------------------------------------------------------------------


def loops(case: Case) -> Iterator[Attempt]:
    """Yield attempts that reduce a loop to one round, or replace it by its body."""
    for name, lines in _modules(case):
        for at, line in enumerate(lines):
            match = _LOOP.search(line)
            if match and match["last"] != match["step"] and _is_zero(lines, match["first"]):
                once = f"{line[: match.start('last')]}{match['step']}{line[match.end('last') :]}"
                yield partial(case.with_module, name, [*lines[:at], once, *lines[at + 1 :]])
            if match and (end := _closing(lines, at)) is not None:
                index = re.compile(rf"{re.escape(match[1])}(?![\w$.-])")
                body = [index.sub(match["first"], one) for one in lines[at + 1 : end]]
                yield partial(_tidied, case, name, [*lines[:at], *body, *lines[end + 1 :]])


def _closing(lines: Sequence[str], at: int) -> int | None:
    """Return the line that ends the block which begins in line ``at``. Returns None if the block has results or an
    unexpected form.
    """
    if not lines[at].rstrip().endswith("{") or "iter_args" in lines[at]:
        return None
    depth = 0
    for number in range(at, len(lines)):
        text = lines[number].strip()
        depth += text.endswith("{") - text.startswith("}")
        if depth == 0:
            return number if text == "}" else None
    return None


def _is_zero(lines: Sequence[str], value: str) -> bool:
    return any(re.match(rf"\s*{re.escape(value)} = arith\.constant 0 :", line) for line in lines)


def operations(case: Case) -> Iterator[Attempt]:
    """Yield cases without operations: half of them, a quarter, …, one. Unused values go too."""
    for name, lines in _modules(case):
        removable = [at for at, line in enumerate(lines) if _removable(line)]
        for start, stop in runs(len(removable)):
            gone = set(removable[start:stop])
            left = [line for at, line in enumerate(lines) if at not in gone]
            yield partial(_tidied, case, name, left)
        yield from _bypassed(case, name, lines)


def _bypassed(case: Case, name: str, lines: Sequence[str]) -> Iterator[Attempt]:
    """An operation's first operand in place of its result."""
    for at in range(len(lines) - 1, -1, -1):
        match = _IN_OUT.search(lines[at])
        if match and match[2].startswith(match[4].strip()) and match[1] != match[3]:
            result, operand = re.compile(rf"{re.escape(match[3])}(?![\w$.-])"), match[1]
            later = [result.sub(operand, line) for line in lines[at + 1 :]]
            yield partial(_tidied, case, name, [*lines[:at], *later])


def _removable(line: str) -> bool:
    text = line.strip()
    return bool(text) and not text.startswith(("module", "func.func", "return", "}", "//")) and not text.endswith("{")


def _tidied(case: Case, name: str, lines: Sequence[str]) -> Case:
    """Return the case with these lines, without unused values."""
    left = list(lines)
    while True:
        counts = Counter(value for line in left for value in _VALUE.findall(line))
        unused = [
            at for at, line in enumerate(left)
            if (match := _DEFINES.match(line)) and counts[match[1]] == 1 and not line.rstrip().endswith("{")
        ]  # fmt: skip
        if not unused:
            return case.with_module(name, left)
        left = [line for at, line in enumerate(left) if at not in set(unused)]


def _modules(case: Case) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name in case.modules:
        yield name, case.units[name].clean


# --- C++ -------------------------------------------------------------------------------------------------------------


def statements(case: Case) -> Iterator[Attempt]:
    """Kernels that no module was made from, without some lines: of both versions, so that the fault stays."""
    for code in case.by_hand:
        lines = code.clean
        for start, stop in runs(len(lines)):
            yield partial(case.with_body, code.kernel.func_id, (*lines[:start], *lines[stop:]))


# --- data ------------------------------------------------------------------------------------------------------------


def data(case: Case) -> Iterator[Attempt]:
    """Inputs of zeros, else of ones, else of small whole numbers."""
    for at, one in enumerate(case.parameters):
        if one.direction == "OUT" or one.scratch:
            continue
        for plainer in _plainer(one):
            changed = replace(one, initial=plainer)
            yield partial(replace, case, parameters=(*case.parameters[:at], changed, *case.parameters[at + 1 :]))


@np.errstate(all="ignore")  # no generator: this would hold while it is made, and no longer
def _plainer(one: Parameter) -> list[np.ndarray[Any, Any]]:
    """Return simpler contents for a parameter: zeros, ones, or small whole numbers. Returns none if it holds zeros."""
    stored = one.initial.view(STORAGE[one.dtype])
    values = decode(stored, one.dtype).astype(np.float64)
    if not one.initial.any():
        return []
    kind = np.dtype(STORAGE[one.dtype])
    contents = [np.zeros_like(one.initial)]
    if (values == 1).all() or not is_float(one.dtype) or kind.kind != "f":
        return contents
    contents.append(np.ones(len(values), kind).view(one.initial.dtype))
    whole = np.nan_to_num(np.clip(np.round(values), -4, 4))
    if not np.array_equal(whole, values):
        contents.append(whole.astype(kind).view(one.initial.dtype))
    return contents
