"""One element type under its many names, in Python, torch and C++."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import pypto_build.runtime
from pypto_build.facts.dtypes import DTYPES, ITEMSIZE, PTO, TORCH, DType, torch_name


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


def test_every_name_is_one_type() -> None:
    for names in ("name", "torch", "enum"):
        names_of = [getattr(row, names) for row in DTYPES.values() if getattr(row, names) and row.name != "INDEX"]
        assert len(names_of) == len(set(names_of))
    assert len(PTO) == sum(1 + bool(row.other_pto) for row in DTYPES.values())


@pytest.mark.parametrize("row", TORCH.values(), ids=str)
def test_torch_has_the_type_as_the_row_says(row: DType) -> None:
    dtype = getattr(torch, row.torch)
    assert torch.empty(0, dtype=dtype).element_size() == row.size
    assert dtype.is_floating_point == row.is_float
    assert np.dtype(row.storage).itemsize == row.size
    if row.is_float:
        assert torch.finfo(dtype).eps == 2 * row.epsilon
        assert row.exponent + row.mantissa + (row.name != "FP8E8M0") == 8 * row.size, "with a sign, but for a scale"
    elif row.name != "BOOL":
        assert (torch.iinfo(dtype).min < 0) != row.is_unsigned


RUNTIME = Path(pypto_build.runtime.__file__).parent


def test_the_runtime_knows_the_same_types() -> None:
    """Names, sizes and torch's names, in the order of DataType's numbers."""
    header = (RUNTIME / "include" / "pypto" / "data_type.h").read_text()
    numbers = re.findall(r"^    (\w+) = (\d+),", header, re.MULTILINE)
    rows = [next(row for row in DTYPES.values() if row.enum == name) for name, _ in numbers]
    assert [int(number) for _, number in numbers] == list(range(len(rows)))
    assert {row.enum for row in DTYPES.values()} == {"", *(row.enum for row in rows)}
    names = re.findall(r'"(\w+)"', header.partition("kNames")[2].partition("};")[0])
    assert names == [row.enum for row in rows]
    sizes = re.findall(r"kElementBytes\[kDataTypeCount\] = {([\d, ]+)}", header)[0]
    assert [int(size) for size in sizes.split(",")] == [row.size for row in rows]
    table = dict.fromkeys(enum for enum in names) | {
        enum: name for name, enum in reversed(re.findall(r'{"(\w+)", DataType::(\w+)}', source("types.cpp")))
    }
    assert table == {row.enum: row.torch or "float4_e2m1fn_x2" for row in rows}
    crash = re.findall(r'"(\w+)"', source("crash.cpp").partition("kTypeNames[kDataTypeCount] = {")[2].partition("}")[0])
    assert crash == [row.torch or "float4_e2m1" for row in rows]


def source(name: str) -> str:
    """A file of the runtime's, wherever it lies."""
    return next((RUNTIME / "src").rglob(name)).read_text()


def test_kernels_have_the_types_by_their_names() -> None:
    """A type with a name in C++ is one of the language, or defined in the headers that kernels include."""
    text = "\n".join(path.read_text() for path in (RUNTIME / "include" / "pto").rglob("*.hpp"))
    for cpp in {row.cpp for row in DTYPES.values()} - {"", "bool", "float", "double"}:
        assert re.search(r"u?int\d+_t$", cpp) or re.search(rf"(struct|using|class) {cpp}\b", text), cpp
