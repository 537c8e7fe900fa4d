"""Dependencies of random orchestrations are those that simpler's rules give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.runtime.dependency_model import INTERPRETER, X_SHAPE, Y_SHAPE, edges, program
from tests.runtime.rig import Kernel, Rig

PROGRAMS = 60
AT_ONCE = 12


@pytest.mark.parametrize("first", range(0, PROGRAMS, AT_ONCE))
def test_random_programs(rig: Rig, tmp_path: Path, first: int) -> None:
    total = 0
    for seed in range(first, first + AT_ONCE):
        words = program(seed)
        tensors = [(np.array(words, np.int32), "IN")]
        tensors += [(np.zeros(shape, np.float32), "INOUT") for shape in (X_SHAPE, Y_SHAPE)]
        graph = rig.run([Kernel("nothing", "")], INTERPRETER, tensors, directory=tmp_path).graph
        actual = {
            (int(edge["pred"]), int(edge["succ"]), edge["arg"], edge["source"], edge.get("overlap", ""))
            for edge in graph["edges"]
        }
        assert actual == edges(words), f"program {seed}"
        total += len(actual)
    assert total > 100 * AT_ONCE
