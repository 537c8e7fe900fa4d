"""Reads argument dumps of every vintage: the manifest first, values only on demand.

Layouts, newest first (simpler's history):

* since 2026-06-18 ``args_dump/args_dump.json`` with ``args[]``, payload in ``args.bin``; ``func_id`` is a list;
* since 2026-04-28 ``tensor_dump/tensor_dump.json`` with ``tensors[]``, payload in ``tensor_dump.bin``;
* before ``tensor_dump_<time>/`` with ``tensor_dump_<time>.json`` or ``manifest.json``.

Before 2026-05-20 a tensor has ``raw_shape`` and ``offsets`` in place of ``strides`` and ``start_offset``. The payload
is the gathered view in row-major order in all of them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import open_file
from pypto_build.artifact.shapes import row_major_strides
from pypto_build.diagnose.recorded.graph import extents, newest, parse_id, read_document, shown, whole, wholes
from pypto_build.facts.dtypes import ITEMSIZE, torch_name
from pypto_build.replay.values import Array, decode, storage

#: Spellings of roles and stages in dumps and on command lines.
ROLES = {"in": "input", "out": "output", "input": "input", "output": "output", "inout": "inout"}
STAGES = {"before": "before", "after": "after", "before_dispatch": "before", "after_completion": "after"}
_AGAIN = "run again with DUMP=2"
_NEEDED = ("task_id", "arg_index", "role", "stage")
#: What func_ids and numbers of arguments may be.
_ID = (-1, (1 << 31) - 1)

#: Where a manifest lies, from the directory that a user names.
_MANIFESTS = (
    "args_dump.json",
    "tensor_dump.json",
    "tensor_dump_*.json",
    "manifest.json",
    "args_dump/args_dump.json",
    "tensor_dump/tensor_dump.json",
    "tensor_dump_*/*.json",
    "dfx_outputs/args_dump/args_dump.json",
    "dfx_outputs/tensor_dump/tensor_dump.json",
)


@dataclass(frozen=True)
class DumpedArg:
    """One argument of one task at one stage (`before` or `after` its execution).

    `value` is the value of a scalar. `offset` and `size` locate the payload; a `size` of 0 means that there is none. In
    dumps before June 2026, `subtask` is the lane of a group, elsewhere -1.
    """

    task_id: int
    func_ids: tuple[int, ...]
    index: int
    role: str
    stage: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    start_offset: int | None
    value: float | int | bool | str | None
    offset: int
    size: int
    truncated: bool
    overwritten: bool
    subtask: int = -1

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class ArgsDump:
    """A dump: the records of its manifest in the order of the file. `binary` is None if no payload was written."""

    path: Path
    binary: Path | None
    records: tuple[DumpedArg, ...]
    dropped: int

    def stored(self, record: DumpedArg) -> Array:
        """The elements as stored, in the shape of the tensor.

        Raises a usage error where the dump has no payload for it, or only a part.
        """
        where = f"{self.path}: task {record.task_id:#x} argument {record.index}"
        if record.kind == "scalar":
            raise ArtifactError(where, "is a scalar, whose value is shown in the list of arguments", "name a tensor")
        if record.overwritten:
            raise ArtifactError(
                where, "cannot be shown: its content was overwritten before it was saved", "dump fewer arguments"
            )
        if self.binary is None or record.size == 0:
            if record.numel == 0:
                return storage(b"", record.dtype, record.shape)
            raise ArtifactError(where, "cannot be shown: only its shape was dumped, not its content (level 3)", _AGAIN)
        needed = record.numel * ITEMSIZE[record.dtype]
        if record.truncated or record.size < needed:
            raise ArtifactError(
                where,
                f"cannot be shown: only {record.size} of its {needed} bytes were saved",
                "dump fewer arguments at a time",
            )
        return storage(_read(self.binary, record.offset, needed, where), record.dtype, record.shape)

    def values(self, record: DumpedArg) -> Array:
        """The elements as numbers; errors as in `stored`."""
        return decode(self.stored(record), record.dtype)


def find_manifest(path: Path) -> Path | None:
    """Return the newest manifest at or below `path`, or None if there is none."""
    return path if path.is_file() else newest(path, _MANIFESTS)


def read_dump(path: Path) -> ArgsDump:
    """Read the dump whose manifest is `path`. Raises a usage error that names the file and the invalid field."""
    document = read_document(path, _AGAIN)
    entries = document.get("args", document.get("tensors")) if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ArtifactError(path, "is not an argument dump: it contains neither args[] nor tensors[]", _AGAIN)
    field = "args" if "args" in document else "tensors"
    records = tuple(_record(entry, f"{path}: {field}[{number}]") for number, entry in enumerate(entries))
    try:
        dropped = whole(document.get("dropped_records") or 0, 0)
    except ValueError as error:
        raise ArtifactError(path, f"dropped_records: {error}", _AGAIN) from None
    return ArgsDump(path, _binary(path, document), records, dropped)


def _record(entry: Any, where: str) -> DumpedArg:
    """One entry; every field that a vintage left out has the meaning it had then."""
    if not isinstance(entry, Mapping):
        raise ArtifactError(where, "is not an object", _AGAIN)
    func_id = entry.get("func_id", -1)
    kind = str(entry.get("kind", "tensor"))
    dtype = torch_name(str(entry.get("dtype", "")))
    if dtype is None:
        raise ArtifactError(f"{where}.dtype", f"{shown(entry.get('dtype'))} is not a known element type", _AGAIN)
    try:
        return DumpedArg(
            task_id=parse_id(entry["task_id"]),
            func_ids=wholes(func_id, *_ID) if isinstance(func_id, list) else (whole(func_id, *_ID),),
            index=whole(entry["arg_index"], *_ID),
            role=ROLES[str(entry["role"]).lower()],
            stage=STAGES[str(entry["stage"]).lower()],
            kind=kind,
            dtype=dtype,
            shape=extents(entry.get("shape", [])),
            strides=_layout(entry)[0],
            start_offset=_layout(entry)[1],
            value=_value(entry.get("value")),
            offset=whole(entry.get("bin_offset", 0), 0),
            size=whole(entry.get("bin_size", 0), 0),
            truncated=bool(entry.get("truncated", False)),
            overwritten=bool(entry.get("overwritten", False)),
            subtask=whole(entry.get("subtask_id", -1), *_ID),
        )
    except KeyError as error:
        missing = f"{shown(error.args[0])} is no known role or stage"
        missing = next((f"{key} is missing" for key in _NEEDED if key not in entry), missing)
        raise ArtifactError(where, missing, _AGAIN) from None
    except (TypeError, ValueError) as error:
        raise ArtifactError(where, f"{error}", _AGAIN) from None


def _value(value: object) -> float | int | bool | str | None:
    if value is None or isinstance(value, (float, bool)):
        return value
    return shown(value) if isinstance(value, (list, dict, str)) else whole(value)


def _layout(entry: Mapping[str, Any]) -> tuple[tuple[int, ...] | None, int | None]:
    """Strides and first element within the buffer; before 2026-05-20 they follow from the whole buffer's shape."""
    if "strides" in entry:
        start = entry.get("start_offset")
        return wholes(entry["strides"]), None if start is None else whole(start)
    raw, offsets = entry.get("raw_shape"), entry.get("offsets")
    if not raw or offsets is None:
        return None, None
    strides = row_major_strides(extents(raw))
    return strides, sum(offset * stride for offset, stride in zip(wholes(offsets), strides, strict=False))


def _binary(path: Path, document: Mapping[str, Any]) -> Path | None:
    """The payload file: named in the manifest, always beside it."""
    name = document.get("bin_file", f"{path.stem}.bin")
    if not name:
        return None
    try:
        binary = path.parent / Path(str(name)).name
        return binary if binary.is_file() else None
    except (OSError, ValueError):  # no file can have this name
        return None


def _read(binary: Path, offset: int, size: int, where: str) -> bytes:
    with open_file(binary) as file:
        data = b""
        if offset + size <= os.fstat(file.fileno()).st_size:
            file.seek(offset)
            data = file.read(size)
    if len(data) != size:
        raise ArtifactError(where, f"{binary.name} ends before its content (byte {offset + size})", _AGAIN)
    return data
