"""Reads the task graph of a run, `deps.json`, of every vintage, and answers which task waits for which.

Since 2026-08-13 edges carry flags, since 2026-05-20 slices have strides and a first element; before they have offsets.
The first form (2026-05-11) has nothing but pairs of ids. What a form lacks is empty here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import read_text
from pypto_build.artifact.shapes import fits_memory, row_major_strides
from pypto_build.facts.dtypes import ITEMSIZE, torch_name

# Reads the JSON that a run leaves for instruments, and the numbers in it.

#: Bytes of a record; that of a run of a million tasks has about half of it.
_LARGEST = 1 << 30
#: Numbers of a list: dimensions of a tensor, lanes of a task.
_MOST = 64
#: A time beyond any, in cycles or microseconds.
_LATEST = 2.0**63
_SHOWN = 60
_WHOLE = re.compile(r"\s*-?[0-9]{1,20}\s*\Z")


def text_or_nothing(path: Path) -> str:
    """Return the text of a source file that only provides names, or an empty text if it cannot be read."""
    try:
        return read_text(path, errors="replace")
    except OSError:
        return ""


def newest(directory: Path, patterns: Iterable[str]) -> Path | None:
    """Return the last file below a directory that matches the first pattern with any match."""
    for pattern in patterns:
        files = sorted(file for file in directory.glob(pattern) if not file.is_dir())  # a pipe is told when it is read
        if files:
            return files[-1]
    return None


def read_document(path: Path, again: str) -> Any:
    """Read the JSON file at `path`. Raises a usage error that ends with `again`, the command for a new file."""
    try:
        return json.loads(read_text(path, _LARGEST))
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", again) from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ArtifactError(
            path, f"is not JSON: {reason}", f"{again}, because the run that wrote the file did not finish"
        ) from None


def whole(value: object, low: int = -(1 << 63), high: int = (1 << 64) - 1) -> int:
    """Return a number of a record from `low` to `high`, given as number or digits. Raises `ValueError` otherwise."""
    number: int | None = None
    if (
        isinstance(value, int)
        or (isinstance(value, float) and value.is_integer())
        or (isinstance(value, str) and _WHOLE.match(value))
    ):
        number = int(value)
    if number is None or not low <= number <= high:
        raise ValueError(f"{shown(value)} is not a number from {low} to {high}")
    return number


def wholes(values: object, low: int = -(1 << 63), high: int = (1 << 64) - 1) -> tuple[int, ...]:
    """Return the numbers of a list in a record. Raises `ValueError` for any other content."""
    if not isinstance(values, list) or len(values) > _MOST:
        raise ValueError(f"{shown(values)} is not a list of numbers")
    return tuple(whole(value, low, high) for value in values)


def extents(values: object) -> tuple[int, ...]:
    """Return a shape in a record. Raises `ValueError` if it is not a shape or does not fit into memory."""
    shape = wholes(values, 0)
    if not fits_memory(shape):
        raise ValueError(f"shape {list(shape)} does not fit into memory")
    return shape


def moment(value: object) -> float:
    """Return a time in a record. Raises `ValueError` if it is not a time."""
    if isinstance(value, (int, float)) and abs(value) < _LATEST:
        return float(value)
    raise ValueError(f"{shown(value)} is not a time")


def shown(value: object) -> str:
    """Return a short form of a value in a record, for a message."""
    if isinstance(value, (list, dict)):
        return f"a list of {len(value)}" if isinstance(value, list) else f"an object of {len(value)}"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


# Names of the tasks of a run: simpler's 64-bit ids, and the numbers in messages.
# An id holds the ring in its upper and a count in its lower half; ids of several rings say nothing about the order
# of submission. A *number* counts the tasks that run a kernel in the order of their submission, from 0, as in
# verdicts.

#: Characters of an id; 64 bits in decimal, blanks around them.
_LONGEST = 32
_RING_AND_LOCAL = re.compile(r"\(?\s*(\d{1,20})\s*[:,]\s*(\d{1,20})\s*\)?\Z")


def parse_id(value: object) -> int:
    """Return the task id in a record: a number, or decimal or hexadecimal text. Raises `ValueError` otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"{str(value)[:_LONGEST]} is not a valid task id")
    number = value if isinstance(value, int) else -1
    if isinstance(value, str) and len(value) <= _LONGEST:
        number = int(value, 16 if value.lower().startswith("0x") else 10)
    if not -(1 << 63) <= number < 1 << 64 or (isinstance(value, str) and len(value) > _LONGEST):
        raise ValueError(f"{str(value)[:_LONGEST]!r} is not a valid task id")
    return number


def id_text(raw: int) -> str:
    """`ring:count`, the short form of an id."""
    return f"{raw >> 32}:{raw & 0xFFFFFFFF}"


@dataclass(frozen=True)
class TaskOrder:
    """The numbers of a run's tasks by id. Without a record of the submissions they are guessed from the ids."""

    numbers: Mapping[int, int]
    exact: bool = True

    @cached_property
    def _ids(self) -> dict[int, int]:
        return {number: raw for raw, number in self.numbers.items()}

    @classmethod
    def of(cls, ids: Iterable[int]) -> TaskOrder:
        """Numbers in the order given."""
        return cls({raw: number for number, raw in enumerate(dict.fromkeys(ids))})

    @classmethod
    def guessed(cls, ids: Iterable[int]) -> TaskOrder:
        """Number the tasks by their ids. That is the order of submission if the run used one ring."""
        ordered = sorted(set(ids))
        return cls({raw: number for number, raw in enumerate(ordered)}, len({raw >> 32 for raw in ordered}) <= 1)

    def label(self, raw: int) -> str:
        """Return `12 (1:13)`, number and id. A task without a number, such as an allocation, has only its id."""
        number = self.numbers.get(raw)
        return id_text(raw) if number is None else f"{number} ({id_text(raw)})"

    def find(self, text: str, option: str = "TASK") -> int:
        """Return the id of the task that a user names by number, by `ring:count`, or by the id itself (0x… or decimal).

        Raises a usage error if there is no such task.
        """
        raw = self._named(text.strip())
        if raw is None:
            count = len(self.numbers)
            numbers = f"tasks are numbered 0 to {count - 1}" if count else "the record holds no task"
            hint = f"{numbers}; a task can also be named as 'ring:count' or 0x…"
            raise ArtifactError(f"{option}={text}", "no task has this number", hint)
        return raw

    def _named(self, text: str) -> int | None:
        pair = _RING_AND_LOCAL.match(text)
        if pair:
            raw = int(pair[1]) << 32 | int(pair[2])
            return raw if raw in self.numbers else None
        try:
            number = parse_id(text)
        except ValueError:
            return None
        if not text.lower().startswith("0x") and number in self._ids:
            return self._ids[number]
        return number if number in self.numbers else None


_AGAIN = "run again with DEP_GEN=1"
_PLACES = ("deps.json", "dfx_outputs/deps.json")


@dataclass(frozen=True)
class TaskArg:
    """One tensor argument of a task. `tensor` is None for an output that the runtime allocates."""

    index: int
    kind: str
    tensor: int | None
    dtype: str
    shape: tuple[int, ...]
    start_offset: int = 0
    strides: tuple[int, ...] = ()

    @property
    def reads(self) -> bool:
        """Return whether the task may read the argument. An argument without dependencies prints as `UNKNOWN`."""
        return self.kind in ("INPUT", "INOUT", "UNKNOWN", "NO_DEP")

    @property
    def writes(self) -> bool:
        """Return whether the task writes the argument."""
        return self.kind in ("OUTPUT", "INOUT", "OUTPUT_EXISTING")

    @property
    def span(self) -> tuple[int, int]:
        """First byte and one past the last, counted from the start of the buffer."""
        itemsize = ITEMSIZE.get(self.dtype, 1)
        if 0 in self.shape:
            return self.start_offset * itemsize, self.start_offset * itemsize
        reach = sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=False))
        return self.start_offset * itemsize, (self.start_offset + reach + 1) * itemsize


@dataclass(frozen=True)
class Task:
    """One submitted task; `func_ids` are those of its active lanes (AIC, AIV0, AIV1)."""

    id: int
    func_ids: tuple[int, ...] = ()
    lanes: tuple[int, ...] = (-1, -1, -1)
    block_num: int = 1
    manual: bool = False
    args: tuple[TaskArg, ...] = ()


@dataclass(frozen=True)
class Edge:
    """`succ` waits for `pred`, because of argument `arg` of `succ` (-1: explicitly)."""

    pred: int
    succ: int
    arg: int = -1
    source: str = ""
    tensor: int | None = None
    overlap: str = ""


@dataclass(frozen=True)
class Tensor:
    """A buffer at one address and version."""

    id: int
    address: int
    version: int
    dtype: str
    numel: int


@dataclass(frozen=True)
class TaskGraph:
    """Tasks in the order of their submission, edges, buffers."""

    path: Path
    tasks: tuple[Task, ...]
    edges: tuple[Edge, ...]
    tensors: Mapping[int, Tensor] = field(default_factory=dict)

    @cached_property
    def by_id(self) -> dict[int, Task]:
        """The tasks by id."""
        return {task.id: task for task in self.tasks}

    @cached_property
    def order(self) -> TaskOrder:
        """The numbers of the tasks that run a kernel, in order. In forms of the file without kernels, all tasks have
        numbers.
        """
        with_kernel = [task.id for task in self.tasks if task.func_ids]
        return TaskOrder.of(with_kernel or [task.id for task in self.tasks])

    @cached_property
    def preds(self) -> dict[int, dict[int, list[Edge]]]:
        """The edges of each task to its predecessors, grouped by predecessor."""
        return _grouped(self.edges, "succ", "pred")

    @cached_property
    def succs(self) -> dict[int, dict[int, list[Edge]]]:
        """Return for each task the edges to the tasks that wait for it, by successor."""
        return _grouped(self.edges, "pred", "succ")

    def pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of tasks with an edge, predecessor first, without repeats."""
        return list(dict.fromkeys((edge.pred, edge.succ) for edge in self.edges))

    def topological(self) -> list[int]:
        """All ids, predecessors first; raises a usage error if the edges form a cycle."""
        left = {task.id: len(self.preds.get(task.id, {})) for task in self.tasks}
        for edge in self.edges:  # allocations stand in edges only
            left.setdefault(edge.pred, 0)
        ready = [raw for raw, count in left.items() if count == 0]
        ordered: list[int] = []
        for raw in ready:
            ordered.append(raw)
            for succ in self.succs.get(raw, {}):
                left[succ] -= 1
                if left[succ] == 0:
                    ready.append(succ)
        if len(ordered) != len(left):
            stuck = next(raw for raw, count in left.items() if count > 0)
            raise ArtifactError(
                self.path, f"its dependencies form a cycle through task {self.order.label(stuck)}", _AGAIN
            )
        return ordered


def _grouped(edges: Iterable[Edge], at: str, by: str) -> dict[int, dict[int, list[Edge]]]:
    result: dict[int, dict[int, list[Edge]]] = {}
    for edge in edges:
        result.setdefault(getattr(edge, at), {}).setdefault(getattr(edge, by), []).append(edge)
    return result


def find_graph(*candidates: Path) -> Path | None:
    """Return the first deps.json at, in or beside one of `candidates`."""
    for candidate in candidates:
        if candidate.is_file():
            return candidate
        for base in (candidate, candidate.parent):
            if path := newest(base, _PLACES):
                return path
    return None


def read_graph(path: Path) -> TaskGraph:
    """Read the graph at `path`. Raises a usage error that names the file and the invalid field."""
    document = read_document(path, _AGAIN)
    if not isinstance(document, dict) or not isinstance(document.get("edges"), list):
        raise ArtifactError(path, "is not a task graph: it contains no edges[]", _AGAIN)
    tensors = {entry.id: entry for entry in _each(path, document, "tensors", _tensor)}
    tasks = list({task.id: task for task in _each(path, document, "tasks", _task)}.values())
    edges = _each(path, document, "edges", _edge)
    if not tasks:
        ids = dict.fromkeys(raw for edge in edges for raw in (edge.pred, edge.succ))
        tasks = [Task(raw) for raw in sorted(ids)]
    submitted = {task.id for task in tasks}
    for number, edge in enumerate(edges):
        if edge.succ not in submitted:
            raise ArtifactError(
                f"{path}: edges[{number}]", f"{id_text(edge.succ)} is not the id of a task in the graph", _AGAIN
            )
    return TaskGraph(path, tuple(tasks), tuple(edges), tensors)


def _each(path: Path, document: Mapping[str, Any], field_name: str, read: Any) -> list[Any]:
    items: list[Any] = []
    try:
        for entry in _list(document.get(field_name) or []):
            items.append(read(entry))  # noqa: PERF401 - the number of items says which one is at fault
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        message = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)[:200]
        raise ArtifactError(f"{path}: {field_name}[{len(items)}]", message, _AGAIN) from None
    return items


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("is no list")
    return value


def _task(entry: Mapping[str, Any]) -> Task:
    lanes = wholes(entry.get("kernel_ids", []), -1, (1 << 31) - 1)
    return Task(
        id=parse_id(entry["task_id"]),
        func_ids=tuple(dict.fromkeys(i for i in lanes if i >= 0)),
        lanes=lanes or (-1, -1, -1),
        block_num=whole(entry.get("block_num", 1), 0, (1 << 31) - 1),
        manual=entry.get("scope") == "manual",
        args=tuple(_arg(arg) for arg in _list(entry.get("args", []))),
    )


def _arg(entry: Mapping[str, Any]) -> TaskArg:
    raw = entry.get("tensor_id")
    shape = extents(entry.get("shape", []))
    strides = entry.get("strides")
    return TaskArg(
        index=whole(entry["idx"]),
        kind=str(entry["type"]),
        tensor=None if raw is None else parse_id(raw),
        dtype=torch_name(str(entry.get("dtype", ""))) or "",
        shape=shape,
        start_offset=whole(entry.get("start_offset", 0)),
        strides=row_major_strides(shape) if strides is None else wholes(strides),
    )


def _edge(entry: Any) -> Edge:
    if isinstance(entry, list):
        return Edge(parse_id(entry[0]), parse_id(entry[1]))
    raw = entry.get("tensor_id")
    return Edge(
        pred=parse_id(entry["pred"]),
        succ=parse_id(entry["succ"]),
        arg=whole(entry.get("arg", -1)),
        source=str(entry.get("source", "")),
        tensor=None if raw is None else parse_id(raw),
        overlap=str(entry.get("overlap", "")),
    )


def _tensor(entry: Mapping[str, Any]) -> Tensor:
    numel = entry.get("buffer_numel")
    if numel is None:
        numel = math.prod(extents(entry.get("raw_shapes", [])))
    return Tensor(
        id=parse_id(entry["tensor_id"]),
        address=parse_id(entry.get("buffer_addr", 0)),
        version=whole(entry.get("version", 0)),
        dtype=torch_name(str(entry.get("dtype", ""))) or "",
        numel=whole(numel, 0),
    )
