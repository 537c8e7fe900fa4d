"""Orchestrations of every generation since February 2026 run unchanged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.runtime.rig import Kernel, Rig, f32_bits, floats
from tests.runtime.vintages import IN_ORDER, TENSORS_FIRST

ADD = Kernel("add", "for (uint64_t i = 0; i < count(args, 2); ++i) data(args, 2)[i] = data(args, 0)[i] + data(args, 1)[i];")
SHIFT = Kernel(
    "shift",
    """
    const float by = scalar<float>(args, 2) * scalar<int32_t>(args, 3);
    for (uint64_t i = 0; i < count(args, 1); ++i) data(args, 1)[i] = data(args, 0)[i] + by;""",
)
SHIFT_SCALARS_FIRST = Kernel(
    "shift",
    """
    const float by = scalar<float>(args, 0) * scalar<int32_t>(args, 1);
    for (uint64_t i = 0; i < count(args, 3); ++i) data(args, 3)[i] = data(args, 2)[i] + by;""",
)


@pytest.mark.parametrize("vintage", [*TENSORS_FIRST, *IN_ORDER])
def test_vintage(rig: Rig, vintage: str, tmp_path: Path) -> None:
    shift, text = (SHIFT, TENSORS_FIRST[vintage]) if vintage in TENSORS_FIRST else (SHIFT_SCALARS_FIRST, IN_ORDER[vintage])
    a, b, f = floats(4, 8), floats(4, 8) * 2, np.zeros((4, 8), np.float32)
    outcome = rig.run([ADD, shift], text, [(a, "IN"), (b, "IN"), (f, "OUT")], [f32_bits(0.5), 3], tmp_path)
    np.testing.assert_array_equal(f, a + b + 1.5)
    assert outcome.result.tasks == 2
    assert [task["kernel_ids"] for task in outcome.graph["tasks"] if max(task["kernel_ids"]) >= 0] == [
        [-1, 0, -1],
        [-1, 1, -1],
    ]
    waits = {(pred, succ) for pred, succ, _ in outcome.edges()}
    last = len(outcome.graph["tasks"]) - 1
    assert (last - 1, last) in waits


@pytest.mark.parametrize("vintage", ["2026-08", "2026-06", "2026-05", "2026-04"])
def test_too_few_arguments(rig: Rig, vintage: str) -> None:
    a, f = floats(4, 8), np.zeros((4, 8), np.float32)
    with pytest.raises(rig.module.RuntimeFault) as caught:
        rig.run([ADD, SHIFT], TENSORS_FIRST[vintage], [(a, "IN"), (f, "OUT")], [0, 0])
    assert caught.value.message == "the orchestration expects 5 arguments, 4 are given"
    assert caught.value.code_name == "INVALID_ARGS"


def test_parameter_order_places_scalars_between_tensors(rig: Rig) -> None:
    """The entries of February take one list of words in declaration order."""
    text = IN_ORDER["2026-02-24"].replace("args[3]", "args[S0]").replace("args[4]", "args[S1]")
    text = text.replace("args[2]", "args[4]").replace("args[1]", "args[2]")
    text = text.replace("S0", "1").replace("S1", "3")
    a, b, f = floats(4, 8), floats(4, 8) * 2, np.zeros((4, 8), np.float32)
    rig.run(
        [ADD, SHIFT_SCALARS_FIRST],
        text,
        [(a, "IN"), (b, "IN"), (f, "OUT")],
        [f32_bits(0.5), 3],
        parameter_order="tstst",
    )
    np.testing.assert_array_equal(f, a + b + 1.5)


def test_parameter_order_must_fit(rig: Rig) -> None:
    a = floats(4, 8)
    with pytest.raises(rig.module.RuntimeFault, match='parameter_order "tt" does not name 3 tensors and 2 scalars'):
        rig.run([ADD, SHIFT], TENSORS_FIRST["2026-08"], [(a, "IN")] * 3, [0, 0], parameter_order="tt")
