"""Tolerances: the command line, else golden.py, else 1e-5."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.replay.tolerances import tolerances


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
