"""Tolerances: the command line, else golden.py, else 1e-5. Outputs: what golden.py lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pypto_build.compiler.language as language
from pypto_build.artifact import ArtifactError
from pypto_build.artifact.scenes import scene_tolerance
from pypto_build.facts.run_options import is_tolerance
from pypto_build.replay.cli import parser
from pypto_build.replay.comparators import parse_comparator
from pypto_build.replay.tolerances import compared_outputs, tolerances
from pypto_build.rules.options import OptionError, parse_options


@pytest.mark.parametrize(
    ("golden", "chosen", "expected"),
    [
        (None, (None, None), (1e-5, 1e-5)),
        (None, (0.1, None), (0.1, 1e-5)),
        ("RTOL = 1e-2\nATOL = 2\n", (None, None), (1e-2, 2.0)),
        ("RTOL = 1e-2\nATOL = 2\n", (None, 0.0), (1e-2, 0.0)),
        ("RTOL = ATOL = 0.5\n", (None, None), (0.5, 0.5)),
        ("RTOL = compute()\nraise SystemExit\n", (None, None), (1e-5, 1e-5)),
        ("RTOL = (\n", (None, None), (1e-5, 1e-5)),
    ],
)
def test_where_they_come_from(
    tmp_path: Path, golden: str | None, chosen: tuple[float | None, float | None], expected: tuple[float, float]
) -> None:
    if golden is not None:
        (tmp_path / "golden.py").write_text(golden)
    assert tolerances(tmp_path, *chosen) == expected


def test_compared_outputs(tmp_path: Path) -> None:
    assert compared_outputs(tmp_path) == ()
    (tmp_path / "golden.py").write_text("import torch\n__outputs__ = ['out']\nRTOL = 1e-05\n")
    assert compared_outputs(tmp_path) == ("out",)
    assert tolerances(tmp_path, None, None) == (1e-5, 1e-5)
    (tmp_path / "golden.py").write_text("__outputs__ = find()\n")
    assert compared_outputs(tmp_path) == ()


@pytest.mark.parametrize("text", ["inf", "-1", "True", "1e999", "-0.5", "'1'"])
def test_what_is_no_tolerance(tmp_path: Path, text: str) -> None:
    (tmp_path / "golden.py").write_text(f"ATOL = {text.replace('inf', '1e999')}\n")
    with pytest.raises(ArtifactError) as error:
        tolerances(tmp_path, None, None)
    value = {"1e999": "inf"}.get(text, text)
    assert str(error.value) == (
        f"{tmp_path / 'golden.py'}: ATOL = {value} is not a tolerance; "
        "write a finite number of 0 or more, or give ATOL="
    )
    assert error.value.exit_status == 4
    assert tolerances(tmp_path, None, 0.5) == (1e-5, 0.5)


@pytest.mark.parametrize("text", ["inf", "nan", "-1", "1e999", "-inf"])
def test_no_tolerance_on_a_command_line(text: str) -> None:
    for name in ("RTOL", "ATOL"):
        with pytest.raises(OptionError, match=f"{name}={text}: is not a finite number of 0 or more"):
            parse_options({name: text})
        with pytest.raises(ArtifactError, match=f"argument --{name.lower()}: invalid number"):
            parser().parse_args(["a", f"--{name.lower()}={text}"])
    with pytest.raises(ArtifactError, match="is not a finite number of at least 0"):
        parse_comparator(
            f"ratio_allclose(rtol={text})" if text not in ("inf", "nan", "-inf") else "ratio_allclose(rtol=1e999)"
        )


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -1.0, True, "1"])
def test_no_tolerance_of_a_program_or_a_scene(value: Any) -> None:
    assert not is_tolerance(value)
    with pytest.raises(ValueError, match="is not a tolerance; write a finite number of 0 or more"):
        language.jit(lambda: None).reference(rtol=value)
    with pytest.raises(ArtifactError, match=r"t\.py: RTOL = .* is not a tolerance"):
        scene_tolerance("t.py", "RTOL", value)
