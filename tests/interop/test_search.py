"""The searches of a bisection, on made-up verdicts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pypto_build.interop.bisect import first_bad, smallest_bad
from pypto_build.interop.steps import Outcome, signature
from pypto_build.replay.verdict import ErrorInfo, OutputResult, Verdict


@pytest.mark.parametrize("size", [2, 3, 5, 8, 17])
def test_every_place_of_a_culprit_is_found_in_few_steps(size: int) -> None:
    names = [str(number) for number in range(size)]
    for culprit in range(1, size):
        probed: list[str] = []

        def probe(name: str, culprit: int = culprit, probed: list[str] = probed) -> Outcome:
            probed.append(name)
            return "bad" if int(name) >= culprit else "good"

        assert first_bad(names, probe) == [str(culprit)]
        assert len(probed) <= size.bit_length()


def test_skipped_candidates_stay_suspects() -> None:
    verdicts: dict[str, Outcome] = {"1": "good", "2": "skip", "3": "skip", "4": "bad"}
    assert first_bad(["0", "1", "2", "3", "4", "5"], lambda name: verdicts[name]) == ["2", "3", "4"]


@pytest.mark.parametrize("culprits", ["c", "ah", "bcd", "abcdefgh"])
def test_a_smallest_set(culprits: str) -> None:
    def probe(chosen: Sequence[str]) -> Outcome:
        return "bad" if set(culprits) <= set(chosen) else "good"

    assert "".join(smallest_bad(list("abcdefgh"), probe)) == culprits


def test_signatures() -> None:
    def verdict(status: str, kind: str = "", *failed: str) -> Verdict:
        outputs = [OutputResult(name, "mismatch", [1], "float32", 1) for name in failed]
        error = ErrorInfo(kind, "some message") if kind else None
        return Verdict(status, "a", "a2a3sim", "embedded", outputs=outputs, error=error)  # type: ignore[arg-type]

    assert signature(verdict("pass")) == "pass"
    assert signature(verdict("mismatch", "", "z", "y")) == "mismatch of y, z"
    assert signature(verdict("runtime_error", "crash")) == "runtime_error (crash)"
    assert signature(verdict("hang", "hang")) == "hang"
    deadlock = Verdict("hang", "a", "a2a3sim", "simpler", error=ErrorInfo("hang", "is full", code=2))
    assert signature(deadlock) == "hang (code 2)"
