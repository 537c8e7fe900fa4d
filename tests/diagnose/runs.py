"""Runs that never happened: the files a run leaves behind, from short descriptions, in the forms of all vintages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

RING1 = 1 << 32


def write_json(path: Path, document: Any) -> Path:
    """Write one JSON file; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def dumped(task: int, index: int, values: Any, *, role: str = "input", func_id: int = 0, **more: Any) -> dict[str, Any]:
    """One tensor of a dump in today's form; `values` go into the payload by `write_dump`."""
    array = np.asarray(values)
    strides = [int(np.prod(array.shape[axis + 1 :], dtype=int)) for axis in range(array.ndim)]
    return {
        "task_id": f"0x{task:016x}",
        "func_id": [func_id],
        "arg_index": index,
        "role": role,
        "stage": "after_completion" if role == "output" else "before_dispatch",
        "kind": "tensor",
        "dtype": array.dtype.name.upper(),
        "is_contiguous": True,
        "shape": list(array.shape),
        "strides": strides,
        "start_offset": 0,
        "numel": int(array.size),
        "truncated": False,
        "overwritten": False,
        "values": array,
    } | more


def scalar(task: int, index: int, value: float | int, dtype: str = "FLOAT32", func_id: int = 0) -> dict[str, Any]:
    """One scalar of a dump."""
    entry = dumped(task, index, np.zeros(()), func_id=func_id) | {"kind": "scalar", "dtype": dtype, "value": value}
    return {**entry, "values": None}


def write_dump(directory: Path, entries: Sequence[Mapping[str, Any]], *, name: str = "args_dump", **more: Any) -> Path:
    """A dump below `directory`; `name` is that of the vintage. Returns the manifest's path."""
    payload, listed = b"", []
    for entry in entries:
        plain = {key: value for key, value in entry.items() if key != "values"}
        data = b"" if entry["values"] is None else entry["values"].tobytes()
        listed.append({**plain, "bin_offset": len(payload), "bin_size": len(data)} | dict(entry.get("override", {})))
        payload += data
    binary = "args.bin" if name == "args_dump" else f"{name}.bin"
    field = "args" if name == "args_dump" else "tensors"
    document = {"run_dir": name, "dropped_records": 0, "bin_file": binary, field: listed} | more
    path = write_json(directory / name / f"{name}.json", document)
    (directory / name / binary).write_bytes(payload)
    return path
