"""The quick check agrees with the full one for passing runs, and returns nothing for others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pypto_build.replay.compare import difference
from pypto_build.replay.values import storage
from tests.replay.builder import build_artifact, embedded_module

DTYPES = ["float32", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "bool"]
WIDTH = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "int32": 4, "int64": 8, "uint8": 1, "bool": 1}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_agrees_with_the_full_comparison(embedded: ModuleType, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(DTYPES))
    count = data.draw(st.integers(0, 8))
    expected = data.draw(st.binary(min_size=count * WIDTH[dtype], max_size=count * WIDTH[dtype]))
    flips = data.draw(st.lists(st.integers(0, max(0, len(expected) - 1)), max_size=2))
    actual = bytes(byte ^ 1 if i in flips else byte for i, byte in enumerate(expected))
    if dtype == "bool":
        actual, expected = (bytes(b & 1 for b in side) for side in (actual, expected))
    rtol, atol = data.draw(st.sampled_from([(0.0, 0.0), (1e-3, 1e-5), (0.5, 1.0)]))
    quick = embedded.compare(actual, expected, dtype, rtol, atol)
    with np.errstate(all="ignore"):
        full = difference(storage(actual, dtype, (count,)), storage(expected, dtype, (count,)), dtype, rtol, atol)
    if quick is not None:
        assert full.count == 0
        assert quick == pytest.approx((full.max_abs, full.max_rel), rel=1e-12)
    elif full.count == 0:  # only what it does not judge: values that are not finite, integers within no tolerance
        values = [actual, expected]
        assert dtype.startswith(("float", "bfloat"))
        assert not all(np.isfinite(_floats(side, dtype)).all() for side in values)


def _floats(data: bytes, dtype: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    if dtype == "bfloat16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(data, np.dtype(dtype)).astype(np.float32)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "no_such_type"])
def test_other_types_are_left_to_the_full_comparison(embedded: ModuleType, dtype: str) -> None:
    assert embedded.compare(b"\0" * 8, b"\0" * 8, dtype, 0.0, 0.0) is None


def test_sizes_must_agree(embedded: ModuleType) -> None:
    assert embedded.compare(b"\0" * 8, b"\0" * 4, "float32", 0.0, 0.0) is None
    assert not embedded.same_bytes(b"abc", b"ab")
    assert embedded.same_bytes(b"abc", bytearray(b"abc"))


def test_a_passing_replay_never_loads_numpy(tmp_path: Path) -> None:
    artifact = Path(__file__).resolve().parents[2] / "examples" / "artifacts" / "_jit_vector_dag"
    build_artifact(artifact, tmp_path)
    argv = [sys.executable, "-X", "importtime", "-m", "pypto_build.replay", str(artifact), "--platform", "a2a3sim"]
    argv += ["--build-dir", str(tmp_path), "--embedded", str(embedded_module())]
    run = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "[RUN] PASS" in run.stdout
    assert "pypto_build.replay.quick" in run.stderr
    assert "numpy" not in run.stderr
