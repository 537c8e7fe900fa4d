"""The edits of a program, a reference or a module that are tried, and their text."""

from __future__ import annotations

import pytest

from pypto_build.diagnose.diverge.variants import MOST, edits_of, line_of, python_trials
from pypto_build.diagnose.diverge.varied import module_trials
from pypto_build.diagnose.findings import Edit

_PROGRAM = """
import language as pl

SIZE = 64

def scale(x, y, row):
    tile = pl.load(x, [row, 0], [16, SIZE])
    pl.store(pl.exp(tile - pl.row_sum(tile)) * 0.5, [row, 0], y)

def untouched(x):
    return x + 7
"""
_MODULE = """
  %cst = arith.constant 5.000000000e-01 : f32
  pto.trowmax ins(%a, %tmp : !t, !t) outs(%b : !t)
  pto.tsub ins(%a, %b : !t, !t) outs(%a : !t)
  pto.tcvt ins(%a {rmode = #pto<round_mode FLOOR>} : !t) outs(%c : !t)
"""


@pytest.mark.parametrize(
    ("what", "line"),
    {
        "'+' in place of '-'": "    pl.store(pl.exp(tile + pl.row_sum(tile)) * 0.5, [row, 0], y)",
        "'row_max' in place of 'row_sum'": "    pl.store(pl.exp(tile - pl.row_max(tile)) * 0.5, [row, 0], y)",
        "'col_sum' in place of 'row_sum'": "    pl.store(pl.exp(tile - pl.col_sum(tile)) * 0.5, [row, 0], y)",
        "'exp' left out": "    pl.store(tile - pl.row_sum(tile) * 0.5, [row, 0], y)",
        "'2.0' in place of '0.5'": "    pl.store(pl.exp(tile - pl.row_sum(tile)) * 2.0, [row, 0], y)",
        "'0.5' left out": "    pl.store((pl.exp(tile - pl.row_sum(tile))), [row, 0], y)",
        "'128' in place of '64'": "SIZE = 128",
        "'row' and '0' swapped": "    tile = pl.load(x, [0, row], [16, SIZE])",
        "'y' in place of 'x'": "    tile = pl.load(y, [row, 0], [16, SIZE])",
        "'tile - pl.row_sum(tile)' rounded to bfloat16": (
            "    pl.store(pl.exp(pl.cast(pl.cast(tile - pl.row_sum(tile), pl.BF16), pl.FP32)) * 0.5, [row, 0], y)"
        ),
    }.items(),
)
def test_an_edit_of_a_program(what: str, line: str) -> None:
    tried = python_trials(_PROGRAM, {"scale"}, "bfloat16")
    assert line in [
        trial.applied(_PROGRAM).splitlines()[line_of(trial, _PROGRAM) - 1] for trial in tried if trial.what == what
    ]


def test_only_the_functions_of_the_program_are_edited() -> None:
    assert 11 not in {line_of(trial, _PROGRAM) for trial in python_trials(_PROGRAM, {"scale"})}
    assert len(python_trials(_PROGRAM * 30, {"scale"})) == MOST
    assert python_trials("", set()) == []


def test_operands_of_a_product_of_matrices_are_rounded_first() -> None:
    text = "import torch\n\ndef run(s, v):\n    w = torch.softmax(s + 1.0, dim=1)\n    return w @ v\n"
    tried = [trial.what for trial in python_trials(text, {"run"}, "bfloat16")]
    assert tried[:2] == ["'w' rounded to bfloat16", "'v' rounded to bfloat16"]


def test_an_offset_may_be_counted_by_the_loop_around_it() -> None:
    loop = "def run(x, y):\n    for g in pl.range(4):\n        scale(pl.slice(x, [8, 8], [0, 0]), y, g)\n"
    text = f"{_PROGRAM}ROWS, COLS = 16, 32\n\n{loop}"
    tried = [trial.applied(text).splitlines()[-1].strip() for trial in python_trials(text, {"run"})]
    assert "scale(pl.slice(x, [8, 8], [g, 0]), y, g)" in tried
    assert "scale(pl.slice(x, [8, 8], [g * SIZE, 0]), y, g)" in tried
    assert "scale(pl.slice(x, [8, 8], [g * COLS, 0]), y, g)" in tried


def test_edits_of_a_module() -> None:
    tried = {trial.what: edits_of(trial, _MODULE, "m.pto") for trial in module_trials(_MODULE)}
    assert tried["'trowsum' in place of 'trowmax'"] == (
        Edit(
            "m.pto",
            3,
            "pto.trowmax ins(%a, %tmp : !t, !t) outs(%b : !t)",
            "pto.trowsum ins(%a, %tmp : !t, !t) outs(%b : !t)",
        ),
    )
    assert tried["'%a' and '%b' swapped"][0].new == "pto.tsub ins(%b, %a : !t, !t) outs(%a : !t)"
    assert "round_mode CEIL" in tried["'CEIL' in place of 'FLOOR'"][0].new
    assert tried["'2.000000000e+00' in place of '5.000000000e-01'"][0].line == 2
