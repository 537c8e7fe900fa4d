"""Data from a child may only be values and records of this package; data that would call a function is refused."""

from __future__ import annotations

import os
import pickle
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pypto_build.artifact.errors import ArtifactError
from pypto_build.facts.tasks import TensorView
from pypto_build.replay.reference.launch import read_value, written
from pypto_build.replay.verdict import ErrorInfo
from pypto_build.replay.worker import Worker
from pypto_build.runtime.report import Frame


class _Call:
    def __init__(self, what: object, *arguments: object) -> None:
        self._call = what, arguments

    def __reduce__(self) -> tuple[object, ...]:
        return self._call


def test_values_come_back() -> None:
    tensor = TensorView(64, 32, 0, "float32", (2, 4), (4, 1))
    values = (1, 2.5, "x", [None, True], {"a": {1, 2}}, Path("/x"), Frame("m", 1, "s"), ErrorInfo("k", "m"), tensor)
    assert read_value(written(values)) == values
    assert read_value(written(np.arange(3))).tolist() == [0, 1, 2]
    assert read_value(written(np.float32(1.5))) == 1.5
    assert read_value(written(memoryview(b"abcd")[1:3])) == b"bc"  # and not what it is a view of
    assert isinstance(read_value(written(ArtifactError("p", "m"))), ArtifactError)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(_Call(os.system, "true")),
        pickle.dumps(_Call(subprocess.Popen, ["true"])),
        pickle.dumps(_Call(eval, "1")),
        pickle.dumps(_Call(Worker)),
        b"\x80\x04\x8c\x0fpypto_build.cli\x8c\x10subprocess.Popen\x93.",
        b"cpypto_build.toolchain.git\nsubprocess\n.",
        b"\x80\x04",
        b"",
    ],
)
def test_calls_do_not(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_value(data)
