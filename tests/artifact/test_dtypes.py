"""One element type under its many names."""

from __future__ import annotations

import pytest

from pypto_build.artifact.dtypes import ITEMSIZE, torch_name


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("fp32", "float32"),
        ("float", "float32"),
        ("DataType::FLOAT16", "float16"),
        ("half", "float16"),
        ("bfloat16_t", "bfloat16"),
        ("uint8_t", "uint8"),
        ("std::int64_t", "int64"),
        ("index", "int64"),
        ("BOOL", "bool"),
        ("fp8e4m3fn", "float8_e4m3fn"),
        ("float8_e5m2_t", "float8_e5m2"),
        ("fp4", None),
        ("", None),
    ],
)
def test_torch_name(spelling: str, name: str | None) -> None:
    assert torch_name(spelling) == name


def test_every_name_names_itself() -> None:
    assert {name: torch_name(name) for name in ITEMSIZE} == {name: name for name in ITEMSIZE}
