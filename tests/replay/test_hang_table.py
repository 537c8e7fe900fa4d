"""Replays every case of docs/lookup/hangs.md and compares the report with that table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay.hang_cases import CASES, matches, provoke, table, write_artifact
from tests.replay.tiny import Tiny

DOCS = Path(__file__).parents[2] / "docs" / "lookup" / "hangs.md"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return write_artifact(tmp_path_factory.mktemp("hangs"))


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.cause for case in CASES])
def test_report(tiny: Tiny, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[number]
    for name, value in case.environment.items():
        monkeypatch.setenv(name, value)
    run = provoke(tiny.copy_to(tmp_path), number)
    error = run.verdict.error
    assert error is not None, run.stdout
    assert (run.verdict.status, error.kind) == (case.status, case.kind)
    assert matches(case.message, error.message), error.message
    assert matches(case.hint, error.hint), error.hint
    assert any(matches(case.detail, line) for line in error.detail) or not case.detail, error.detail
    if error.kind != "out_of_bounds":  # which is seen after the run
        assert "events (dfx_outputs/flight.json):" in run.stdout, run.stdout
    assert "Traceback" not in run.stdout + run.stderr


def test_page() -> None:
    assert DOCS.read_text(encoding="utf-8") == table(), "python -m tests.replay.hang_cases > docs/lookup/hangs.md"
