"""The table of element types in docs/lookup/programs.md: every type, and what compiles with it on which platform."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pypto_build.compiler import CompileError
from pypto_build.facts import dtypes
from tests.compiler.programs import files

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lookup" / "programs.md"
PROGRAM = """\
A = pl.Tensor[[64, 64], pl.{type}]
B = pl.Tensor[[64, 64], pl.{result}]


@pl.jit.incore
def k(a: A, b: pl.Out[B]):
    x = pl.load(a, [0, 0], [64, 64])
    pl.store({expression}, [0, 0], b)


@pl.jit
def p(a: A, b: pl.Out[B]):
    k(a, b)
"""
EXPRESSIONS = {
    "+": "x + x",
    "*": "x * x",
    "/": "x / x",
    "exp": "pl.exp(x)",
    "maximum": "pl.maximum(x, x)",
    "row_sum": "pl.row_expand(x, pl.row_sum(x))",
    "matmul": "pl.matmul(x, x)",
}


def rows() -> dict[str, list[str]]:
    """Return, by type, the cells of the table of operations."""
    part = PAGE.read_text(encoding="utf-8").split("## Element types")[1].split("\n## ")[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"]
    assert re.findall(r"`([^`]+)`", " ".join(lines[0][2:])) == list(EXPRESSIONS)
    return {row[0].strip("`"): row[2:] for row in lines[2:]}


#: Types that the page says a platform does not convert to FP32.
NOT_TO_FLOAT = {"a2a3sim": ("INT8", "UINT8", "UINT16", "UINT32"), "a5sim": ("UINT16",)}


def compiles(tmp_path: Path, type_: str, result: str, expression: str, platform: str) -> bool:
    try:
        files(tmp_path, PROGRAM.format(type=type_, result=result, expression=expression), platform=platform)
    except CompileError:
        return False
    return True


def test_every_type_is_named() -> None:
    assert rows().keys() == {name for name, value in vars(dtypes).items() if isinstance(value, dtypes.DType)}


@pytest.mark.parametrize("type_", [name for name in rows() if name != "INDEX"])
def test_what_is_said_of_a_type_holds(tmp_path: Path, type_: str) -> None:
    for (name, expression), cell in zip(EXPRESSIONS.items(), rows()[type_], strict=True):
        result = cell.strip("`") if name == "matmul" and cell != "no" else type_
        actual = {
            platform: compiles(tmp_path, type_, result, expression, f"{platform}sim") for platform in ("a2a3", "a5")
        }
        expected = {"a2a3": cell not in ("no", "a5"), "a5": cell != "no"}
        assert actual == expected, (name, cell)
    for platform, not_to_float in NOT_TO_FLOAT.items():
        assert compiles(tmp_path, type_, "FP32", "pl.cast(x, pl.FP32)", platform) is (type_ not in not_to_float)
        assert compiles(tmp_path, type_, type_, "x", platform)
