"""verdict.json: the schema people and scripts rely on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from pypto_build.replay.verdict import (
    EXIT_STATUS,
    ErrorInfo,
    Mismatch,
    OutputResult,
    Status,
    Verdict,
    json_number,
    read_verdict,
    write_verdict,
)

FIXED = (
    "schema",
    "status",
    "artifact",
    "platform",
    "runtime",
    "vintage",
    "cached",
    "tasks",
    "run_s",
    "outputs",
    "error",
)
FIXED_OUTPUT = ("name", "status", "shape", "dtype", "numel", "mismatched", "max_abs", "max_rel", "first")
FIXED_ERROR = ("kind", "message", "task", "kernel", "hint")


def _verdict() -> Verdict:
    output = OutputResult(
        "y", "mismatch", [2, 3], "float32", 6, 1, 0.5, 0.25, [Mismatch([1, 2], json_number(float("nan")), 2.0)]
    )
    return Verdict("mismatch", "_jit_x", "a2a3sim", "embedded", "2026-08", False, 5, 0.01, [output])


def test_fields_and_their_order(tmp_path: Path) -> None:
    verdict = _verdict()
    verdict.error = ErrorInfo("crash", "kernel 'k' crashed", "3", "k", "look")
    write_verdict(verdict, tmp_path / "verdict.json")
    written = json.loads((tmp_path / "verdict.json").read_text())
    assert tuple(written)[: len(FIXED)] == FIXED
    assert tuple(written["outputs"][0])[: len(FIXED_OUTPUT)] == FIXED_OUTPUT
    assert tuple(written["error"])[: len(FIXED_ERROR)] == FIXED_ERROR
    assert written["schema"] == 1
    assert written["outputs"][0]["first"] == [{"index": [1, 2], "actual": "nan", "expected": 2.0}]


def test_read_gives_what_was_written(tmp_path: Path) -> None:
    write_verdict(_verdict(), tmp_path / "deep" / "verdict.json")
    assert read_verdict(tmp_path / "deep" / "verdict.json") == _verdict()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["verdict.json"]


def test_every_status_has_an_exit_status() -> None:
    assert set(EXIT_STATUS) == set(get_args(Status))
    assert EXIT_STATUS == {
        "pass": 0,
        "mismatch": 1,
        "usage_error": 2,
        "build_error": 3,
        "golden_error": 4,
        "runtime_error": 5,
        "hang": 6,
        "unchecked": 7,
        "rule_broken": 8,
    }


@pytest.mark.parametrize(
    ("value", "written"),
    [(1.5, 1.5), (float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf"), (3, 3), (True, True)],
)
def test_numbers_that_json_has_not(value: float, written: object) -> None:
    assert json_number(value) == written


def test_error_in_one_line() -> None:
    assert str(ErrorInfo("crash", "it fell", "3", "add", "lift it")) == "it fell (task 3, kernel 'add'); lift it"
    assert str(ErrorInfo("crash", "kernel 'add' fell", "3", "add")) == "kernel 'add' fell (task 3)"
    assert str(ErrorInfo("crash", "it fell")) == "it fell"
