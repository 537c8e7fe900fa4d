"""Files a run leaves: argument dumps, timeline, scope statistics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.rig import Kernel, Rig, entry, floats

ADD = Kernel(
    "add", "for (uint64_t i = 0; i < 8; ++i) data(args, 1)[i] = data(args, 0)[i] + scalar<int32_t>(args, 2);",
    signature=["IN", "OUT"],
)  # fmt: skip
DOUBLE = Kernel("double", "for (uint64_t i = 0; i < 8; ++i) data(args, 0)[i] *= 2;", signature=["INOUT"])
BODY = entry("""
    const ChipTensor& x = orch_args.tensor(0).ref();
    const ChipTensor& y = orch_args.tensor(1).ref();
    uint32_t shape[2] = {1, 8}; uint32_t at[2] = {2, 0};
    ChipTensor row = y.view(shape, at);
    PTO2_SCOPE() {
        CoreTaskArgs p; p.add_input(x); p.add_output(row); p.add_scalar(3); p.dump(row); rt_submit_aiv_task(0, p);
        CoreTaskArgs q; q.add_inout(row); rt_submit_aiv_task(1, q);
    }
""")


def run(rig: Rig, directory: Path, kernels: tuple[Kernel, ...] = (ADD, DOUBLE), **options: Any) -> None:
    x, y = floats(8), np.zeros((4, 8), np.float32)
    rig.run(kernels, BODY, [(x, "IN"), (y, "INOUT")], output_dir=str(directory), **options)


def load(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text())
    return data


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"dump_select": ["dou*"]}, [(1, 0), (1, 0)]),
        ({"dump_select": ["add:1"]}, [(0, 1)]),
        ({"dump_select": ["add:2", "double:0"]}, [(0, 2), (1, 0), (1, 0)]),
        ({"dump_select": ["none"]}, []),
        ({"dump_tasks": ["0"]}, [(0, 0), (0, 2), (0, 1)]),
        ({"dump_tasks": ["0-1"], "dump_select": ["*:0"]}, [(0, 0), (1, 0), (1, 0)]),
        ({"dump_tasks": ["0x100000001"]}, [(1, 0), (1, 0)]),
    ],
)
def test_selected_arguments(
    rig: Rig, tmp_path: Path, selection: dict[str, Any], expected: list[tuple[int, int]]
) -> None:
    run(rig, tmp_path, dump_args=2, **selection)
    path = tmp_path / "args_dump" / "args_dump.json"
    actual = load(path)["args"] if path.exists() else []
    assert [(int(item["task_id"], 16) & 0xFFFFFFFF, item["arg_index"]) for item in actual] == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dump_args": 2, "dump_select": ["add:x"]}, 'option dump_select is "add:x"'),
        ({"dump_args": 2, "dump_select": [":1"]}, 'option dump_select is ":1"'),
        ({"dump_args": 2, "dump_tasks": ["1-"]}, 'option dump_tasks is "1-"'),
        ({"dump_tasks": ["1"]}, "dump_select and dump_tasks need a dump"),
    ],
)
def test_selection_that_makes_no_sense(rig: Rig, tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(rig.module.RuntimeFault) as caught:
        run(rig, tmp_path, **options)
    assert (caught.value.message, caught.value.kind) == (message, "usage_error")


def test_full_argument_dump(rig: Rig, tmp_path: Path) -> None:
    run(rig, tmp_path, dump_args=2)
    dump = load(tmp_path / "args_dump" / "args_dump.json")
    payload = (tmp_path / "args_dump" / "args.bin").read_bytes()
    assert {key: value for key, value in dump.items() if key not in ("args", "run_dir")} == {
        "bin_format": {"type": "logical_contiguous", "byte_order": "little_endian"},
        "dump_args_level": 2,
        "total_args": 5,
        "before_dispatch": 3,
        "after_completion": 2,
        "input_args": 2,
        "output_args": 1,
        "inout_args": 2,
        "truncated_args": 0,
        "dropped_records": 0,
        "dropped_overwrite": 0,
        "bin_file": "args.bin",
    }
    keys = ("task_id", "func_id", "arg_index", "role", "stage", "kind")
    first, second = "0x0000000100000000", "0x0000000100000001"
    assert [tuple(item[key] for key in keys) for item in dump["args"]] == [
        (first, [0], 0, "input", "before_dispatch", "tensor"),
        (first, [0], 2, "input", "before_dispatch", "scalar"),
        (first, [0], 1, "output", "after_completion", "tensor"),
        (second, [1], 0, "inout", "before_dispatch", "tensor"),
        (second, [1], 0, "inout", "after_completion", "tensor"),
    ]
    scalar = dump["args"][1]
    assert (scalar["dtype"], scalar["value"], scalar["shape"], scalar["numel"]) == ("INT32", 3, [], 1)
    row = dump["args"][4]
    assert {key: row[key] for key in ("dtype", "is_contiguous", "shape", "strides", "start_offset", "numel")} == {
        "dtype": "FLOAT32",
        "is_contiguous": True,
        "shape": [1, 8],
        "strides": [8, 1],
        "start_offset": 16,
        "numel": 8,
    }
    values = [
        np.frombuffer(payload, np.float32, item["numel"], item["bin_offset"])
        for item in dump["args"]
        if item["kind"] == "tensor"
    ]
    for actual, expected in zip(values, [floats(8), floats(8) + 3, floats(8) + 3, 2 * (floats(8) + 3)], strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_strided_arguments_are_gathered(rig: Rig, tmp_path: Path) -> None:
    body = entry("""
        const ChipTensor& y = orch_args.tensor(0).ref();
        ChipTensor t = y.transpose(0, 1); ChipTensor s = t.slice(0, 1, 6, 2);
        CoreTaskArgs p; p.add_input(s); rt_submit_aiv_task(0, p);
    """)
    y = floats(4, 8)
    rig.run([Kernel("touch", "", signature=["IN"])], body, [(y, "IN")], output_dir=str(tmp_path), dump_args=2)
    (item,) = load(tmp_path / "args_dump" / "args_dump.json")["args"]
    payload = np.frombuffer((tmp_path / "args_dump" / "args.bin").read_bytes(), np.float32)
    assert (item["shape"], item["is_contiguous"]) == ([3, 4], False)
    np.testing.assert_array_equal(payload.reshape(3, 4), y.T[1:6:2])


def test_marked_arguments_only(rig: Rig, tmp_path: Path) -> None:
    run(rig, tmp_path, dump_args=1)
    dump = load(tmp_path / "args_dump" / "args_dump.json")
    assert [(item["func_id"], item["arg_index"], item["stage"]) for item in dump["args"]] == [
        ([0], 1, "after_completion")
    ]


def test_payload_of_marked_arguments_only(rig: Rig, tmp_path: Path) -> None:
    run(rig, tmp_path, dump_args=3)
    dump = load(tmp_path / "args_dump" / "args_dump.json")
    assert [item.get("bin_size", 0) for item in dump["args"]] == [0, 0, 32, 0, 0]


def test_nothing_marked_leaves_nothing(rig: Rig, tmp_path: Path) -> None:
    x = floats(8)
    body = entry(
        "const ChipTensor& x = orch_args.tensor(0).ref(); CoreTaskArgs p; p.add_input(x); rt_submit_aiv_task(0, p);"
    )
    rig.run([Kernel("touch", "")], body, [(x, "IN")], output_dir=str(tmp_path), dump_args=1)
    assert list(tmp_path.iterdir()) == []


def test_older_names(rig: Rig, tmp_path: Path) -> None:
    run(rig, tmp_path, dump_args=2, dump_format="tensor")
    dump = load(tmp_path / "tensor_dump" / "tensor_dump.json")
    assert (dump["total_tensors"], dump["input_tensors"], dump["bin_file"]) == (5, 2, "tensor_dump.bin")
    assert len(dump["tensors"]) == 5
    assert (tmp_path / "tensor_dump" / "tensor_dump.bin").stat().st_size == 128
    # A kernel an entry, and views by the shape of the whole: what the viewers of April and May 2026 need.
    row = dump["tensors"][2]
    assert (row["func_id"], row["subtask_id"], row["raw_shape"], row["offsets"]) == (0, 1, [4, 8], [2, 0])
    assert {"subtask_id", "raw_shape", "offsets"} <= set.intersection(*map(set, dump["tensors"]))


def test_older_names_of_a_group(rig: Rig, tmp_path: Path) -> None:
    """Every kernel of a task has entries of its own, of the same bytes; a view that is no part of a whole is one."""
    body = entry("""
        const ChipTensor& x = orch_args.tensor(0).ref(); ChipTensor t = x.transpose(0, 1);
        CoreTaskArgs p; p.add_input(t); rt_submit_task(MixedKernels{0, 1, -1}, p);
    """)
    kernels = [Kernel("cube", "", "aic", signature=["IN"]), Kernel("vector", "", signature=["IN"])]
    rig.run(kernels, body, [(floats(4, 8), "IN")], output_dir=str(tmp_path), dump_args=2, dump_format="tensor")
    entries = load(tmp_path / "tensor_dump" / "tensor_dump.json")["tensors"]
    assert [(item["func_id"], item["subtask_id"]) for item in entries] == [(0, 0), (1, 1)]
    assert [(item["raw_shape"], item["offsets"], item["bin_offset"]) for item in entries] == [([8, 4], [0, 0], 0)] * 2


def test_kernels_without_a_signature_are_named(rig: Rig, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(rig, tmp_path, (Kernel("add", ADD.body), DOUBLE), dump_args=2)
    assert capfd.readouterr().err == (
        "[WARN] args dump: kernel add has no signature; its arguments are labelled by what the task declares\n"
    )
    dump = load(tmp_path / "args_dump" / "args_dump.json")
    assert [item["role"] for item in dump["args"]] == ["input", "input", "output", "inout", "inout"]


def test_timeline(rig: Rig, tmp_path: Path) -> None:
    run(rig, tmp_path, swimlane=4, serial=True)
    records = load(tmp_path / "chip_swimlane_records.json")
    assert records["chip_swimlane_level"] == 4
    assert records["metadata"] == {
        "clock_freq_hz": 50_000_000,
        "num_cores": 3,
        "core_types": ["aic", "aiv", "aiv"],
        "core_to_thread": [0, 0, 0],
    }
    rows = records["aicore_tasks"]
    assert [(row[0], row[1], row[2]) for row in rows] == [(1, 1 << 32, 1), (1, (1 << 32) + 1, 2)]
    assert all(row[3] <= row[4] for row in rows)
    assert rows[0][4] <= rows[1][3]
    assert [row[:2] for row in records["aicpu_tasks"]] == [[row[0], row[2]] for row in rows]
    ((first, second),) = records["aicpu_orchestrator_phases"]
    assert (first["task_id"], second["task_id"]) == (1 << 32, (1 << 32) + 1)
    assert first["start_cycles"] <= first["end_cycles"] <= second["end_cycles"]
    (phases,) = records["aicpu_scheduler_phases"]
    assert [(phase["kind"], phase["task_id"] - (1 << 32), phase["loop_iter"]) for phase in phases] == [
        ("dispatch", 0, 0),
        ("complete", 0, 0),
        ("dispatch", 1, 1),
        ("complete", 1, 1),
    ]
    times = [phase[edge] for phase in phases for edge in ("start_cycles", "end_cycles")]
    assert times == sorted(times)
    assert phases[0]["end_cycles"] <= rows[0][3] <= rows[0][4] <= phases[1]["start_cycles"]
    dispatched = [row[2:] for row in records["aicpu_tasks"]]
    assert dispatched == [[phases[i]["start_cycles"], phases[i + 1]["end_cycles"]] for i in (0, 2)]


def test_timeline_of_level_1_knows_no_dispatch(rig: Rig, tmp_path: Path) -> None:
    run(rig, tmp_path, swimlane=1)
    records = load(tmp_path / "chip_swimlane_records.json")
    assert [row[2:] for row in records["aicpu_tasks"]] == [row[3:5] for row in records["aicore_tasks"]]


def test_timeline_below_level_3_has_no_phases(rig: Rig, tmp_path: Path) -> None:
    run(rig, tmp_path, swimlane=2)
    assert load(tmp_path / "chip_swimlane_records.json")["aicpu_scheduler_phases"] == []


def test_scope_statistics(rig: Rig, tmp_path: Path) -> None:
    run(rig, tmp_path, scope_stats=True)
    head, *lines = [
        json.loads(line) for line in (tmp_path / "scope_stats" / "scope_stats.jsonl").read_text().splitlines()
    ]
    assert head == {
        "version": 6,
        "fatal": False,
        "dropped": 0,
        "total": 4,
        "task_window_max": [16384] * 4,
        "heap_max": [1 << 28] * 4,
        "dep_pool_max": [16384] * 4,
        "tensormap_max": 65536,
    }
    assert [(line["phase"], line["depth"], line["ring"]) for line in lines] == [
        ("begin", 0, 0),
        ("begin", 1, 1),
        ("end", 1, 1),
        ("end", 0, 0),
    ]
    assert lines[2]["task_window_end"] == 2
    assert lines[2]["tensormap"] == 1


def test_scope_statistics_of_a_failed_run(rig: Rig, tmp_path: Path) -> None:
    body = entry("PTO2_SCOPE() { orch_args.tensor(9); }")
    with pytest.raises(rig.module.RuntimeFault):
        rig.run([ADD], body, [(floats(8), "IN")], output_dir=str(tmp_path), scope_stats=True)
    head = json.loads((tmp_path / "scope_stats" / "scope_stats.jsonl").read_text().splitlines()[0])
    assert (head["fatal"], head["total"]) == (True, 2)


def test_unwritable_output_directory(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        rig.module.RuntimeFault, match=r"deps\.json\.tmp: cannot be written: .*; choose a writable output directory"
    ):
        run(rig, tmp_path / "file", dep_gen=True)
