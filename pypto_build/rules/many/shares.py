"""The rounds of one job in shares, so that several workers do them: each share has seeds of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from pypto_build.rules.many.choice import Job

#: Rounds that are not worth a job of their own: building takes as long.
_FEWEST = 10
#: Shares of a job on a cluster whose number of workers is unknown.
_ON_A_CLUSTER = 16


def split_rounds(jobs: Sequence[Job], targets: Sequence[str], given: Mapping[str, str], workers: int) -> list[Job]:
    """Return ``jobs`` for these ``workers`` (0 for an unknown number); jobs of `scons flaky` are split by rounds.

    Orders are seeded one by one from SEED on, so all shares together run the orders that one job would run.
    """
    wanted = (workers or _ON_A_CLUSTER) // len(jobs)
    if list(targets) != ["flaky"] or wanted < 2:
        return list(jobs)
    return [share for job in jobs for share in _shares(job, {**given, **job.options}, wanted)]


def _shares(job: Job, options: Mapping[str, str], wanted: int) -> list[Job]:
    rounds, seed = int(options.get("ROUNDS", 0)), int(options.get("SEED", 0))
    count = max(1, min(wanted, rounds // _FEWEST))
    if count == 1:
        return [job]
    bounds = [rounds * number // count for number in range(count + 1)]
    return [
        replace(job, options={**job.options, "SEED": str(seed + first), "ROUNDS": str(last - first)})
        for first, last in pairwise(bounds)
    ]
