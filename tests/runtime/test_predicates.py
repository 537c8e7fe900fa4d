"""Tasks under a condition: when they run, what they wait for, and what their consumers see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.rig import Kernel, Rig, entry

MARK = Kernel("mark", "tensor(args, 0).data_as<int32_t>()[get_block_idx(args)] += 1;")
# Tensors: the gate, what the conditional task marks, what its consumer marks. Scalars: operation and target.
BODY = entry(
    """
    const ChipTensor& gate = orch_args.tensor(0).ref();
    const ChipTensor& y = orch_args.tensor(1).ref();
    const ChipTensor& z = orch_args.tensor(2).ref();
    CoreTaskArgs w; w.add_inout(z); PTO2TaskId before = rt_submit_aiv_task(0, w).task_id();
    CoreTaskArgs p; p.add_inout(y);
    CoreTaskPredicate when; when.operand.tensor = &gate; when.operand.ndims = 1; when.operand.indices[0] = 1;
    when.op = static_cast<PredicateOp>(orch_args.scalar(0)); when.target = from_u64<int64_t>(orch_args.scalar(1));
    p.set_predicate(when); p.set_dependencies(&before, 1);
    TaskOutputTensors conditional = rt_submit_aiv_task(0, p);
    PTO2TaskId after = conditional.task_id();
    CoreTaskArgs q; q.add_input(y); q.set_dependencies(&after, 1); q.add_inout(z);
    rt_submit_task({INVALID_KERNEL_ID, 1, INVALID_KERNEL_ID}, q);
    """
)
SECOND = Kernel("second", "tensor(args, 1).data_as<int32_t>()[0] += 10;")
OPERATIONS = {"NONE": 0, "EQ": 1, "NE": 2, "GT": 3, "LT": 4, "GE": 5, "LE": 6}


def run(rig: Rig, gate: Any, operation: str, target: int, **options: Any) -> tuple[int, int, Any]:
    """Return how often the conditional task and the others ran, and the outcome."""
    y, z = np.zeros(4, np.int32), np.zeros(4, np.int32)
    tensors = [(gate, "IN"), (y, "INOUT"), (z, "INOUT")]
    scalars = [OPERATIONS[operation], target & (2**64 - 1)]
    outcome = rig.run([MARK, SECOND], BODY, tensors, scalars, **options)
    return int(y[0]), int(z[0]), outcome


@pytest.mark.parametrize(
    ("operation", "holds"),
    [
        ("NONE", (True, True, True)),
        ("EQ", (False, True, False)),
        ("NE", (True, False, True)),
        ("GT", (True, False, False)),
        ("LT", (False, False, True)),
        ("GE", (True, True, False)),
        ("LE", (False, True, True)),
    ],
)
def test_operations(rig: Rig, operation: str, holds: tuple[bool, ...]) -> None:
    """A task that is skipped counts as run, and its consumers go on."""
    gate = np.array([0, -5], np.int32)
    for target, expected in zip((-6, -5, -4), holds, strict=True):
        ran, others, outcome = run(rig, gate, operation, target)
        assert (bool(ran), others, outcome.result.tasks) == (expected, 11, 3)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float32", "float16"]
)
def test_bits_of_the_element_count_as_a_signed_integer(rig: Rig, dtype: str) -> None:
    width = np.dtype(dtype).itemsize
    gate = np.frombuffer(bytes(width) + b"\xf9" + b"\xff" * (width - 1), dtype)
    assert [run(rig, gate.copy(), "EQ", target)[0] for target in (-7, 2 ** (8 * width - 1) - 7, 0)] == [1, 0, 0]


ON_A_WRITTEN_GATE = entry(
    """
    const ChipTensor& gate = orch_args.tensor(0).ref();
    const ChipTensor& y = orch_args.tensor(1).ref();
    CoreTaskArgs w; w.add_inout(gate); rt_submit_aiv_task(0, w);
    CoreTaskArgs p; p.add_inout(y);
    CoreTaskPredicate when; when.operand.tensor = &gate; when.operand.ndims = 1; when.op = PredicateOp::NE;
    p.set_predicate(when); rt_submit_aiv_task(0, p);
    """
)


def test_a_condition_is_no_dependency(rig: Rig, tmp_path: Path) -> None:
    """The writer of the gate has to be named; only strict order adds it."""
    edges = {}
    for strict in (False, True):
        gate, y = np.zeros(4, np.int32), np.zeros(4, np.int32)
        tensors = [(gate, "INOUT"), (y, "INOUT")]
        outcome = rig.run([MARK], ON_A_WRITTEN_GATE, tensors, directory=tmp_path, strict=strict, swimlane=4)
        edges[strict] = outcome.edges()
    assert edges == {False: set(), True: {(0, 1, "strict")}}


def test_skipped_and_dummy_tasks_on_the_timeline(rig: Rig, tmp_path: Path) -> None:
    text = ON_A_WRITTEN_GATE.replace("PredicateOp::NE;", "PredicateOp::EQ; when.target = 77;").replace(
        "p.set_predicate(when);", "CoreTaskArgs d; rt_submit_dummy_task(d); p.set_predicate(when);"
    )
    tensors = [(np.zeros(4, np.int32), "INOUT"), (np.zeros(4, np.int32), "INOUT")]
    rig.run([MARK], text, tensors, directory=tmp_path, swimlane=3, serial=True)
    records = json.loads((tmp_path / "chip_swimlane_records.json").read_text())
    (phases,) = records["aicpu_scheduler_phases"]
    assert [(phase["kind"], phase["task_id"]) for phase in phases] == [
        ("dispatch", 0),
        ("complete", 0),
        ("dispatch", 1),
        ("complete", 1),
        ("dummy_task", 1),
        ("dispatch", 2),
        ("complete", 2),
        ("predicated_skip", 2),
    ]
    assert [row[1] for row in records["aicore_tasks"]] == [0]
