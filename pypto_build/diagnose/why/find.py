"""The first run of `why`: everything is executed, and of each kernel call only what it loads and stores is recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pypto_build.artifact.layout import load_artifact
from pypto_build.artifact.records import kernel_binary
from pypto_build.diagnose.hazards.record import ATOMIC, READ, WRITE, Record, TaskRecord, read_record
from pypto_build.diagnose.why.trace import Array, Intervals
from pypto_build.replay.reference.launch import Launch

#: A block of a task, by the task's number.
Call = tuple[int, int]

#: What C++ itself may read or write: an element of an array, what a pointer points to.
_PLAIN = re.compile(r"\w\[|[=(,;{]\s*\*|->|\bmemcpy\b")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"[^\"\n]*\"", re.DOTALL)
#: What stands in every kernel: directives, the arguments of the entry, and the members of its tensors.
_ENTRY = re.compile(r"^[ \t]*#[^\n]*|\bargs\[\d+\]|\w+_tensor->\w+(\.\w+)*", re.MULTILINE)
_INCLUDE = re.compile(r"#\s*include\s*[<\"]([^>\"]+)[>\"]")
_OURS = {"cstdint", "stdint.h", "pto/pto-inst.hpp", "tensor.h", "intrinsic.h", "runtime.h", "pto/common/fifo.hpp"}
#: Pieces of a task's regions beyond which only their hulls are looked at.
_MOST_PIECES = 1 << 22


class Found:
    """What the first run says: tasks by number, and who loads and stores what."""

    def __init__(self, launch: Launch, record: Record) -> None:
        self.record = record
        self.tasks: list[TaskRecord] = [record.tasks[at] for at in record.positions]

        self._artifact = launch.artifact
        self._source = launch.artifact / launch.interface.orchestration.source
        self.kernels = {kernel.func_id: kernel.name for kernel in launch.interface.kernels}

    def regions_of(self, number: int) -> Array:
        """The regions of global memory that a task touched."""
        return self.record.regions[self.record.regions_of(number)]

    @cached_property
    def names(self) -> Mapping[int, list[str]]:
        """Return the orchestration's names for the tensors of each task, in the order of its arguments."""
        sites = self.record.submitted(self._source)
        return {number: [arg.variable.removeprefix("ext_") for arg in site.args] for number, site in sites.items()}

    @cached_property
    def opaque(self) -> frozenset[int]:
        """Kernels, by func_id, that may touch memory otherwise than by instructions: all of their tensors."""
        sources = {kernel.func_id: kernel.source for kernel in load_artifact(self._artifact).kernels}
        return frozenset(func_id for func_id, source in sources.items() if may_be_plain(source))

    @cached_property
    def by_itself(self) -> bool:
        """Whether calls depend on others by what they load alone: no conditions, signals or reads of the
        orchestration."""
        document = self.record.document
        try:
            text = self._source.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        return not (document.host_waits or self.record.signalling or "predicate" in text or "get_tensor_data" in text)

    def is_opaque(self, number: int) -> bool:
        """Return whether one of a task's kernels is opaque."""
        return any(func_id in self.opaque for func_id in self.tasks[number].kernels)

    @cached_property
    def _stores(self) -> Array:
        return np.flatnonzero((self.record.regions["kind"] & WRITE) > 0)

    def writers(self, address: int, before: int) -> Iterator[Call]:
        """Yield the calls that stored to an address in tasks before number `before`, the last first."""
        stores = self._stores[: np.searchsorted(self._stores, self.record.first_region[before])]
        regions = self.record.regions[stores]
        hit = regions[_covering(regions, address)]
        found = sorted({(int(one["task"]), int(one["block"])) for one in hit}, reverse=True)
        yield from found

    def bytes_of(self, call: Call) -> int:
        """Return the number of bytes that a call loads and stores."""
        regions = self.regions_of(call[0])
        regions = regions[regions["block"] == call[1]]
        return int((regions["rows"].astype(np.int64) * regions["length"].astype(np.int64)).sum())

    @cached_property
    def stored_hulls(self) -> tuple[list[int], list[int]]:
        """Return for each task the first byte that it may store, and one past the last."""
        return self._hulls(WRITE, lambda arg: arg.writes)

    @cached_property
    def loaded_hulls(self) -> tuple[list[int], list[int]]:
        """The same of what it may load."""
        return self._hulls(READ, lambda arg: arg.reads)

    def _hulls(self, kind: int, of: Callable[[Any], bool]) -> tuple[list[int], list[int]]:
        count = len(self.tasks)
        low, high = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
        regions = self.record.regions
        chosen = (regions["kind"] & kind) > 0
        np.minimum.at(low, regions["task"][chosen], regions["base"][chosen].astype(np.int64))
        np.maximum.at(high, regions["task"][chosen], self.record.ends[chosen].astype(np.int64))
        for number in range(count) if self.opaque else ():
            for arg in self.tasks[number].args if self.is_opaque(number) else ():
                if of(arg):
                    low[number], high[number] = min(low[number], arg.span[0]), max(high[number], arg.span[1])
        return low.tolist(), high.tolist()


def find(launch: Launch, checked: Path) -> Found:
    """Run everything, with the checked kernels in place of the usual. The arena has what it leaves."""
    directory = launch.build_dir / "why" / "find"
    directory.mkdir(parents=True, exist_ok=True)
    run(
        launch, None, {"output_dir": str(directory), "accesses": True, "serial": True}, checked_kernels(launch, checked)
    )
    return Found(launch, read_record(directory))


def checked_kernels(launch: Launch, checked: Path) -> dict[str, Path]:
    """The checked build of each kernel, by name."""
    kernels = launch.interface.kernels
    return {one.name: checked / f"{kernel_binary(one.core_type, one.name)}.so" for one in kernels}


def run(
    launch: Launch, callback: Callable[[Any], None] | None, options: Mapping[str, Any], libraries: Mapping[str, Path]
) -> None:
    """A run with other options than the launch's own, whose checked kernels judge nothing."""
    told = {**launch.options, "judge": False, "poison": True, **options}
    replace(launch, options=told).run(callback, libraries)


def may_be_plain(source: Path) -> bool:
    """Return whether a kernel may access global memory other than by instructions; true in doubt."""
    try:
        text = source.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    if not set(_INCLUDE.findall(text)) <= _OURS:
        return True
    return _PLAIN.search(_ENTRY.sub(" ", _COMMENT.sub(" ", text))) is not None


def pieces(regions: Array) -> Intervals:
    """The bytes of regions; of very many pieces only the hulls."""
    base, length = regions["base"].astype(np.int64), regions["length"].astype(np.int64)
    rows, stride = regions["rows"].astype(np.int64), regions["stride"].astype(np.int64)
    if int(rows.sum()) > _MOST_PIECES:
        return Intervals.of(base, base + (rows - 1) * stride + length)
    if (rows > 1).any():
        which = np.repeat(np.arange(len(rows)), rows)
        row = np.arange(len(which)) - np.repeat(np.cumsum(rows) - rows, rows)
        base, length = base[which] + row * stride[which], length[which]
    return Intervals.of(base, base + length)


def exact(regions: Array) -> bool:
    """Whether `pieces` are no more than the regions."""
    return int(regions["rows"].astype(np.int64).sum()) <= _MOST_PIECES


def is_atomic(regions: Array) -> Array:
    """Return a mask of the regions that are written by atomic addition."""
    return np.asarray((regions["kind"] & ATOMIC) > 0)


def _covering(regions: Array, address: int) -> Array:
    """Return a mask of the regions that contain a byte of global memory."""
    base, stride = regions["base"].astype(np.int64), np.maximum(regions["stride"].astype(np.int64), 1)
    distance = address - base
    row = np.where(regions["stride"] > 0, distance // stride, 0)
    inside = (distance - row * stride * (regions["stride"] > 0)) < regions["length"].astype(np.int64)
    return np.asarray((distance >= 0) & (row < regions["rows"]) & inside)
