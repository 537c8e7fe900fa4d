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


def graph_document(
    kernels: Sequence[int], edges: Sequence[tuple[int, int, int]], args: Mapping[int, Sequence[tuple[str, int]]]
) -> dict[str, Any]:
    """A deps.json: task i of ring 1 runs kernel `kernels[i]` on the first vector core.

    `edges` are (predecessor, successor, argument); `args` gives a task's arguments as (type, tensor) of 16 floats.
    """

    def arg(index: int, kind: str, tensor: int) -> dict[str, Any]:
        slice_ = {"dtype": "FLOAT32", "shape": [16], "start_offset": "0", "strides": [1]}
        return {"idx": index, "type": kind, "tensor_id": str(tensor)} | slice_

    return {
        "tasks": [
            {
                "task_id": str(RING1 + number),
                "scope": "auto",
                "early_dispatch": False,
                "kernel_ids": [-1, func_id, -1],
                "block_num": 1,
                "args": [arg(index, kind, tensor) for index, (kind, tensor) in enumerate(args.get(number, ()))],
            }
            for number, func_id in enumerate(kernels)
        ],
        "tensors": [],
        "edges": [
            {
                "pred": str(RING1 + pred),
                "succ": str(RING1 + succ),
                "arg": index,
                "source": "tensormap" if index >= 0 else "explicit",
                "overlap": "covered",
                "tensor_id": str(args[succ][index][1]) if succ in args and index >= 0 else "0",
            }
            for pred, succ, index in edges
        ],
    }


def timeline_document(rows: Sequence[tuple[int, int, float, float]], cores: Sequence[str]) -> dict[str, Any]:
    """A timeline of (core, task, start, end) in microseconds, dispatched when they start, in cycles of 1 MHz."""
    return {
        "chip_swimlane_level": 4,
        "metadata": {"clock_freq_hz": 1_000_000, "num_cores": len(cores), "core_types": list(cores)},
        "aicore_tasks": [[core, RING1 + task, n, start, end, 0] for n, (core, task, start, end) in enumerate(rows)],
        "aicpu_tasks": [[core, n, start, end] for n, (core, _, start, end) in enumerate(rows)],
        "aicpu_scheduler_phases": [],
        "aicpu_orchestrator_phases": [],
    }


# vector_dag: c = a + b; d = shift(c); e = shift(c); g = d * e; f = g + c
_A, _B, _C, _D, _E, _G, _F = range(10, 17)
_DAG_KERNELS = (0, 1, 1, 2, 0)
_DAG_EDGES = ((0, 1, 0), (0, 2, 0), (1, 3, 0), (2, 3, 1), (3, 4, 0), (0, 4, 1))
_DAG_ARGS = {
    0: (("INPUT", _A), ("INPUT", _B), ("OUTPUT_EXISTING", _C)),
    1: (("INPUT", _C), ("OUTPUT_EXISTING", _D)),
    2: (("INPUT", _C), ("OUTPUT_EXISTING", _E)),
    3: (("INPUT", _D), ("INPUT", _E), ("OUTPUT_EXISTING", _G)),
    4: (("INPUT", _G), ("INPUT", _C), ("OUTPUT_EXISTING", _F)),
}
# Two vector cores: 0 and 2 and 3 and 4 on the first, 1 on the second.
_DAG_ROWS = ((0, 0, 10, 20), (1, 1, 25, 45), (0, 2, 22, 30), (0, 3, 50, 60), (0, 4, 61, 70))


def vector_dag_graph() -> dict[str, Any]:
    """The deps.json of a run of vector_dag."""
    return graph_document(_DAG_KERNELS, _DAG_EDGES, _DAG_ARGS)


def write_vector_dag(records: Path) -> None:
    """Write the records of a run of vector_dag with DEP_GEN=1 SWIMLANE=4."""
    write_json(records / "deps.json", vector_dag_graph())
    write_json(records / "chip_swimlane_records.json", timeline_document(_DAG_ROWS, ("aiv", "aiv")))
