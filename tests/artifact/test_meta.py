"""compiled_meta.json: schema 1 is read, everything else is one clear line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pypto_build.artifact import ArgDirection, ArtifactError, MetaParam, read_meta

from .artifacts import write

DOCUMENT = {
    "schema": 1,
    "params": [
        {"name": "x", "direction": "In", "shape": [128, -1], "dtype": "fp32"},
        {"name": "n", "direction": "In", "shape": None, "dtype": "index"},
        {"name": "acc", "direction": "InOut", "shape": [1], "dtype": "bfloat16"},
        {"name": "y", "direction": "Out", "shape": [1], "dtype": "hf8"},
    ],
    "num_return_types": 1,
    "platform": "a2a3sim",
    "backend_type": "Ascend910B",
    "later": "ignored",
}


def test_reads_schema_1(tmp_path: Path) -> None:
    meta = read_meta(write(tmp_path / "compiled_meta.json", json.dumps(DOCUMENT)))
    assert meta is not None
    assert meta.params == (
        MetaParam("x", ArgDirection.IN, (128, -1), "float32"),
        MetaParam("n", ArgDirection.IN, None, "int64"),
        MetaParam("acc", ArgDirection.INOUT, (1,), "bfloat16"),
        MetaParam("y", ArgDirection.OUT, (1,), None),
    )
    assert [p.name for p in meta.tensors] == ["x", "acc", "y"]
    assert [p.name for p in meta.scalars] == ["n"]
    assert (meta.platform, meta.backend_type) == ("a2a3sim", "Ascend910B")


def test_missing_file_is_no_metadata(tmp_path: Path) -> None:
    assert read_meta(tmp_path / "compiled_meta.json") is None


_WAY_OUT = "compile again, or remove the file to do without it"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", f"is not a valid compiled_meta.json: Input data was truncated; {_WAY_OUT}"),
        ("[]", f"is not a valid compiled_meta.json: Expected `object`, got `array`; {_WAY_OUT}"),
        (b"\xff", "is not a valid compiled_meta.json: "),
        (json.dumps(DOCUMENT | {"schema": 2}), f"schema: version 2 is not supported, only 1; {_WAY_OUT}"),
        (
            json.dumps(DOCUMENT).replace('"Out"', '"Up"'),
            "params[3].direction: 'Up' is not a direction; use one of In, Out, InOut",
        ),
        (
            json.dumps(DOCUMENT).replace('"acc"', '"../acc"'),
            f"params[2].name: '../acc' is not a valid parameter name; {_WAY_OUT}",
        ),
        (
            json.dumps(DOCUMENT).replace("-1", "null"),
            f"is not a valid compiled_meta.json: Expected `int`, got `null` - at `$.params[0].shape[1]`; {_WAY_OUT}",
        ),
    ],
)
def test_faults(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = write(tmp_path / "compiled_meta.json", text)
    with pytest.raises(ArtifactError) as caught:
        read_meta(path)
    assert str(caught.value).startswith(f"{path}: {message}")
