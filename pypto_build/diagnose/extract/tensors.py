"""The tensors of an extracted artifact: overlapping windows of an allocation become one parameter with its content.

If another task changed the content between two extracted tasks, a new parameter begins. Its input is the content
recorded then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pypto_build.artifact import Artifact, ArtifactError
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.shapes import row_major_strides
from pypto_build.compiler.cpp_scalars import RESERVED
from pypto_build.diagnose.extract.record import elements
from pypto_build.diagnose.recorded.graph import Edge, TaskGraph, read_graph
from pypto_build.diagnose.recorded.names import find_names, match_tasks, submissions, tensor_names
from pypto_build.facts.dtypes import ITEMSIZE
from pypto_build.facts.tasks import Task, TaskArgument, TensorView
from pypto_build.replay.values import STORAGE, decode

# Explicit dependencies of extracted tasks, and the names of their parameters.


@dataclass(frozen=True)
class OrderBesides:
    """Dependencies that do not follow from tensors. ``manual`` are tasks whose tensors create no dependencies."""

    after: Mapping[int, Sequence[int]] = field(default_factory=dict)
    manual: frozenset[int] = frozenset()


def order_of(graph: TaskGraph, tasks: Sequence[Task], parameters: Sequence[Parameter]) -> OrderBesides:
    """Return the order of the run, as far as it does not follow from the tensors of the extracted tasks."""
    by_id = {task.id: task for task in tasks}
    together = _sharing(parameters)
    after: dict[int, list[int]] = {}
    for task in tasks:
        waits: set[int] = set()
        pending = [task.id]
        seen = set(pending)
        while pending:
            succ = pending.pop()
            for pred, edges in graph.preds.get(succ, {}).items():
                if pred in by_id:
                    number = by_id[pred].number
                    if not (succ == task.id and _implied(edges, (number, task.number), together)):
                        waits.add(number)
                elif pred not in seen:
                    seen.add(pred)
                    pending.append(pred)
        if waits:
            after[task.number] = sorted(waits)
    manual = frozenset(by_id[one.id].number for one in graph.tasks if one.manual and one.id in by_id)
    return OrderBesides(after, manual)


def _sharing(parameters: Sequence[Parameter]) -> set[tuple[int, int]]:
    """Return the pairs of tasks that use one parameter, with the earlier task first."""
    pairs = set()
    for one in parameters:
        users = sorted({number for number, _ in one.uses})
        pairs |= {(first, last) for at, first in enumerate(users) for last in users[at + 1 :]}
    return pairs


def _implied(edges: Sequence[Edge], pair: tuple[int, int], together: set[tuple[int, int]]) -> bool:
    """Return whether the runtime finds the dependency from the tensors."""
    return pair in together and any(edge.arg >= 0 for edge in edges)


def name_parameters(parameters: Sequence[Parameter], tasks: Sequence[Task], source: Artifact, graph: TaskGraph) -> None:
    """Give each parameter the name of its variable in the orchestration, else that of the kernel's argument."""
    orchestration = submissions(source.orchestration.source)
    sites = match_tasks(graph, orchestration.submits)
    variables = tensor_names(graph, sites, orchestration)
    by_id = {task.id: task for task in graph.tasks}
    ids = {task.number: task.id for task in tasks}
    kernels = {task.number: task.func_ids for task in tasks}
    named = find_names(source.root)
    taken: set[str] = set(RESERVED)
    for one in parameters:
        number, use = one.uses[0]
        task = by_id.get(ids[number])
        tensor = next((arg.tensor for arg in task.args if arg.index == use.index), None) if task else None
        name = variables.get(tensor, "") if tensor is not None else ""
        site = sites.get(ids[number])
        if not name and site is not None and use.index < len(site.tensors):
            name = site.tensors[use.index].expression.removeprefix("ext_")
        name = name or named.argument(kernels[number], use.index)
        stem = name if name.isidentifier() and name.isascii() else f"t{use.index}"
        chosen, count = stem, 2
        while chosen in taken:
            chosen, count = f"{stem}_{count}", count + 1
        taken.add(chosen)
        one.name = chosen


def kept_graph(text: str, directory: Path) -> TaskGraph:
    """Write the text of a run's graph to ``directory``, and return the graph."""
    write_bytes(directory / "deps.json", text.encode())
    return read_graph(directory / "deps.json")


Elements = np.ndarray[Any, Any]
#: The largest number of dimensions of a tensor (simpler's MAX_TENSOR_DIMS).
_MOST_DIMS = 5


@dataclass
class Parameter:
    """A tensor of the extracted artifact: ``shape`` in row-major order from element ``base`` of its allocation.

    ``initial`` is its content before the first extracted task, ``final`` that after the last. ``direction`` is IN, OUT
    or INOUT. It is OUT only if the tasks write every element before they read it. A ``scratch`` tensor is working
    memory of a group, which the artifact allocates itself.
    """

    key: tuple[int, int, str]
    base: int
    shape: tuple[int, ...]
    direction: str
    initial: Elements
    final: Elements
    name: str = ""
    scratch: bool = False
    uses: list[tuple[int, TaskArgument]] = field(default_factory=list)  # with the task numbers

    @property
    def dtype(self) -> str:
        """The element type by torch's name."""
        return self.key[2]


@dataclass(frozen=True)
class ViewStep:
    """One call: ``view`` with shape and offsets, ``reshape``, ``slice`` (axis, start, end, step) or ``permute``."""

    method: str
    shape: tuple[int, ...] = ()
    more: tuple[int, ...] = ()


class _Growing:
    """A parameter that is built from the uses of tasks."""

    def __init__(self, key: tuple[int, int, str], first: int, last: int, *, scratch: bool = False) -> None:
        self.key, self.first, self.scratch = key, first, scratch
        dtype = np.dtype(f"<u{ITEMSIZE[key[2]]}")  # bits are compared, since a NaN is not equal to itself
        self.initial, self.now = np.zeros(last - first, dtype), np.zeros(last - first, dtype)
        self.known, self.written = np.zeros(last - first, bool), np.zeros(last - first, bool)
        self.seen = np.zeros(last - first, bool)  # in a window, inside or outside the view
        self.needed = np.zeros(last - first, bool)  # its initial content may be needed
        self.read = np.zeros(last - first, bool)
        self.changed = np.zeros(last - first, bool)
        self.uses: list[tuple[int, TaskArgument]] = []

    def follows(self, use: TaskArgument) -> bool:
        """Return whether the content before the task equals the content after the earlier tasks."""
        here = elements(use.view, self.now, self.first)
        filled = elements(use.view, self.known, self.first)
        read = elements(use.view, self._window(use.before), use.view.window[0])
        return bool((here == read)[filled].all())

    def add(self, number: int, use: TaskArgument) -> None:
        self.uses.append((number, use))
        if use.view.empty:
            return
        first, last = (at - self.first for at in use.view.window)
        before, after = self._window(use.before), self._window(use.after)
        new = ~self.seen[first:last]
        self.initial[first:last][new] = before[new]
        self.now[first:last][new] = before[new]
        self.seen[first:last] = True
        view, start = use.view, use.view.window[0]
        fresh = ~elements(view, self.known, self.first)
        elements(view, self.initial, self.first)[fresh] = elements(view, before, start)[fresh]
        changed = elements(view, before, start) != elements(view, after, start)
        unwritten = ~elements(view, self.written, self.first)
        reads = use.direction != "OUT"
        elements(view, self.needed, self.first)[...] |= unwritten & (reads | ~changed)
        elements(view, self.read, self.first)[...] |= reads
        elements(view, self.changed, self.first)[...] |= changed
        elements(view, self.now, self.first)[...] = elements(view, after, start)
        elements(view, self.known, self.first)[...] = True

    def wrote(self, use: TaskArgument) -> None:
        """Mark the elements that a task wrote. All uses of the task must be added before."""
        if use.direction != "IN" and not use.view.empty:
            elements(use.view, self.written, self.first)[...] = True

    def done(self) -> Parameter:
        """Return the finished parameter."""
        self._forget_poison()
        shape, base = _shape([use.view for _, use in self.uses], self.first, self.first + len(self.now))
        count = int(np.prod(shape, dtype=np.int64))
        initial, final = (self._resized(content, base, count) for content in (self.initial, self.now))
        writes = any(use.direction in ("OUT", "INOUT") for _, use in self.uses)
        writes |= any(use.direction == "NO_DEP" and use.after is not use.before for _, use in self.uses)
        covered = len(self.now) == count and bool(self.written.all()) and not self.needed.any()
        direction = "IN" if not writes else "OUT" if covered else "INOUT"
        return Parameter(self.key, base, shape, direction, initial, final, scratch=self.scratch, uses=self.uses)

    def _forget_poison(self) -> None:
        """Replace by zero the NaN that the run put into unwritten memory, because NaN is unequal to itself."""
        dtype = self.key[2]
        if "float" in dtype:
            nan = np.isnan(decode(self.now.view(STORAGE[dtype]), dtype)) & ~(self.changed | self.read)
            self.initial[nan] = self.now[nan] = 0

    def _window(self, data: bytes) -> Elements:
        return np.frombuffer(data, self.initial.dtype)

    def _resized(self, content: Elements, base: int, count: int) -> Elements:
        """Return the content as ``count`` elements from ``base`` on. Elements outside all windows are zero."""
        result = np.zeros(count, content.dtype)
        at = self.first - base
        result[at : at + len(content)] = content
        return result


def parameters(tasks: Sequence[Task]) -> list[Parameter]:
    """Return the parameters of the tasks, in the order of their first use."""
    growing: list[_Growing] = []
    current: dict[tuple[tuple[int, int, str], int], _Growing] = {}
    groups = {task.number for task in tasks if len(set(task.names)) > 1}
    ranges = _merged(use for task in tasks for use in task.tensors)
    for task in tasks:
        used: list[tuple[_Growing, TaskArgument]] = []
        for use in task.tensors:
            key = _key(use.view)
            if task.number in groups and use.direction == "OUT" and use.after is use.before:
                # Working memory of a group. Each task has its own, even if allocations reuse the same addresses.
                growing.append(_Growing(key, *use.view.window, scratch=True))
                growing[-1].add(task.number, use)
                continue
            first, last = next(one for one in ranges[key] if one[0] <= use.view.window[0] <= one[1])
            one = current.get((key, first))
            if one is None or not (use.view.empty or one.follows(use) or _again(one, task)):
                one = current[key, first] = _Growing(key, first, last)
                growing.append(one)
            one.add(task.number, use)
            used.append((one, use))
        for one, use in used:
            one.wrote(use)
    return [one.done() for one in growing]


def _again(one: _Growing, task: Task) -> bool:
    """Return whether the task has the tensor in another argument, too, which explains a difference in content."""
    return any(number == task.number for number, _ in one.uses)


def _key(view: TensorView) -> tuple[int, int, str]:
    return view.buffer, view.size, view.dtype


def _merged(uses: Iterable[TaskArgument]) -> dict[tuple[int, int, str], list[tuple[int, int]]]:
    """Return the windows by allocation and element type. Windows that touch are joined."""
    by_key: dict[tuple[int, int, str], list[tuple[int, int]]] = {}
    for use in uses:
        by_key.setdefault(_key(use.view), []).append(use.view.window if not use.view.empty else (0, 0))
    merged = {}
    for key, windows in by_key.items():
        parts: list[tuple[int, int]] = []
        for first, last in sorted(windows):
            if parts and first <= parts[-1][1]:  # neighbours too: rows of one tensor
                parts[-1] = parts[-1][0], max(last, parts[-1][1])
            else:
                parts.append((first, last))
        merged[key] = parts
    return merged


def _shape(views: Sequence[TensorView], first: int, last: int) -> tuple[tuple[int, ...], int]:
    """Return the row-major shape that all views can be made from, and its first element."""
    filled = [view for view in views if not view.empty]
    if not filled:
        return views[0].shape, first
    one = max(filled, key=lambda view: (sum(extent > 1 for extent in view.shape), len(view.shape)))
    if all(view.contiguous and view.shape == one.shape and view.offset == first for view in filled):
        return one.shape, first
    strides = sorted({s for v in filled for s, n in zip(v.strides, v.shape, strict=True) if n > 1} | {1}, reverse=True)
    chain = all(outer % inner == 0 for outer, inner in pairwise(strides))
    if not chain or len(strides) > _MOST_DIMS:
        return (last - first,), first  # one dimension, which `steps_to` makes each view from
    rows = -(-(last - first) // strides[0])
    inner = [outer // inner for outer, inner in pairwise(strides)]
    return (rows, *inner), first


def steps_to(shape: tuple[int, ...], base: int, view: TensorView) -> list[ViewStep]:
    """Return the calls that make ``view`` from a row-major tensor of ``shape`` that begins at element ``base``.

    Raises ArtifactError if no calls do.
    """
    strides = row_major_strides(shape)
    count = int(np.prod(shape, dtype=np.int64))
    offset = view.offset - base
    if view.shape == shape and offset == 0 and view.contiguous:
        return []
    if view.empty:
        return [ViewStep("view", tuple(0 for _ in shape), tuple(0 for _ in shape)), ViewStep("reshape", view.shape)]
    steps = _windowed(shape, strides, offset, view)
    if steps is not None:
        return steps
    if view.contiguous:
        numel = int(np.prod(view.shape, dtype=np.int64))
        flat = [] if len(shape) == 1 else [ViewStep("reshape", (count,))]
        return [
            *flat,
            ViewStep("view", (numel,), (offset,)),
            *([ViewStep("reshape", view.shape)] if len(view.shape) > 1 else []),
        ]
    raise ArtifactError(
        "extract",
        (
            f"an argument of shape {list(view.shape)} and strides {list(view.strides)} overlaps other "
            "arguments in a way that a view cannot express"
        ),
        "extract fewer tasks",
    )


def _windowed(shape: tuple[int, ...], strides: tuple[int, ...], offset: int, view: TensorView) -> list[ViewStep] | None:
    """Return the calls if each axis of the view is part of one axis of the tensor, else None.

    The calls may take steps (`slice`) and exchange axes (`permute`).
    """
    moving = [(extent, stride) for extent, stride in zip(view.shape, view.strides, strict=True) if extent > 1]
    axes: list[int] = []
    sizes, slices = [1] * len(shape), []
    starts = []
    left = offset
    for extent, stride in zip(shape, strides, strict=True):
        starts.append(min(left // stride, extent - 1) if extent else 0)
        left -= starts[-1] * stride
    if left:
        return None
    for extent, stride in moving:
        axis = next((a for a, s in enumerate(strides) if shape[a] > 1 and stride % s == 0 and a not in axes), None)
        axis = next((a for a, s in enumerate(strides) if shape[a] > 1 and s == stride), axis)
        if axis is None or axis in axes:
            return None
        step = stride // strides[axis]
        reach = (extent - 1) * step + 1
        if starts[axis] + reach > shape[axis]:
            return None
        axes.append(axis)
        sizes[axis] = reach
        if step > 1:
            slices.append(ViewStep("slice", (), (axis, 0, reach, step)))
    steps = [] if tuple(sizes) == shape else [ViewStep("view", tuple(sizes), tuple(starts))]
    steps += slices
    now = [next(extent for (extent, _), a in zip(moving, axes, strict=True) if a == axis) if axis in axes else 1
           for axis in range(len(shape))]  # fmt: skip
    if axes != sorted(axes):
        if len(view.shape) != len(shape):
            return None
        spare = [axis for axis in range(len(shape)) if axis not in axes]
        order = [axes.pop(0) if extent > 1 else spare.pop(0) for extent in view.shape]
        steps.append(ViewStep("permute", (), tuple(order)))
        now = [now[axis] for axis in order]
    if tuple(now) != view.shape:
        if not view.contiguous or math.prod(now) != math.prod(view.shape):
            return None
        steps.append(ViewStep("reshape", view.shape))
    return steps
