"""A sweep on a farm: each job is `pypto-build sweep` of a share of the cases, whose results come back as a file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.snapshot import is_reference
from pypto_build.diagnose.sweep.cases import SweepCase
from pypto_build.diagnose.sweep.run import Document, Result
from pypto_build.facts.jobs import FarmJob, FarmResult
from pypto_build.farm.session import asked_of, session_of

_BACK = "share.msgpack"
#: Cases that are not worth a job of their own: building and loading PyTorch take as long.
_FEWEST = 10
#: Shares for each worker, so that the last to end is not long behind the others.
_EACH = 3
_ENDED = (0, 1)  # all pass, some fail


def run_on_farm(given: argparse.Namespace, every: Sequence[SweepCase], chosen: Sequence[SweepCase]) -> Iterator[Result]:
    """The results of the chosen cases of all, as shares of them end. Raises ArtifactError."""
    session = session_of(given)
    assert session is not None
    with session:
        first = every.index(chosen[0])
        bounds = share_bounds(len(chosen), session.workers)
        jobs = [_job(given, f"{first + start + 1}-{first + stop}") for start, stop in pairwise(bounds)]
        for result in session.results(jobs):
            yield from _results(result)


def share_bounds(cases: int, workers: int) -> list[int]:
    """Return the first case of every share, and the end of the last share."""
    count = max(1, min(_EACH * workers, cases // _FEWEST))
    return [cases * number // count for number in range(count + 1)]


def _job(given: argparse.Namespace, cases: str) -> FarmJob:
    options = {**asked_of(given), "PLATFORM": given.platform, "CASES": cases, "JSON": _BACK}
    options |= {"DATA": "reference"} if is_reference(given.data) else {}
    root = os.path.abspath(given.artifact)
    return FarmJob(f"cases {cases}", root, "sweep", options, returns=(_BACK,))


def _results(share: FarmResult) -> list[Result]:
    if share.status in _ENDED and _BACK in share.files:
        return msgspec.msgpack.decode(share.files[_BACK], type=Document).cases
    lines = [line for line in share.log.splitlines() if line.strip()]
    said = next((line.removeprefix("sweep: ") for line in lines if line.startswith("sweep: ")), "")
    raise ArtifactError(share.label, said or (lines[-1] if lines else f"ended with status {share.status}"))
