"""Tolerances: the command line, else golden.py, else 1e-5. Outputs: what golden.py lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.replay.tolerances import compared_outputs, tolerances


@pytest.mark.parametrize(
    ("golden", "given", "expected"),
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
    tmp_path: Path, golden: str | None, given: tuple[float | None, float | None], expected: tuple[float, float]
) -> None:
    if golden is not None:
        (tmp_path / "golden.py").write_text(golden)
    assert tolerances(tmp_path, *given) == expected


def test_compared_outputs(tmp_path: Path) -> None:
    assert compared_outputs(tmp_path) == ()
    (tmp_path / "golden.py").write_text("import torch\n__outputs__ = ['out']\nRTOL = 1e-05\n")
    assert compared_outputs(tmp_path) == ("out",)
    assert tolerances(tmp_path, None, None) == (1e-5, 1e-5)
    (tmp_path / "golden.py").write_text("__outputs__ = find()\n")
    assert compared_outputs(tmp_path) == ()
