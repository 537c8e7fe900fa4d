"""The trials of a bisection on a farm: replays several candidates, with all repeats of each, at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.facts.jobs import FarmJob, FarmResult
from pypto_build.farm.session import FarmSession
from pypto_build.interop.steps import Candidate, signature
from pypto_build.replay.verdict import Verdict


class SessionReplays:
    """Replays on the farm of a session. Raises ArtifactError if a replay fails to run there."""

    def __init__(self, session: FarmSession) -> None:
        self._session = session

    def replayed(
        self, candidates: Sequence[Candidate], words: Sequence[str], repeats: int, bad: str, log: Path
    ) -> dict[str, list[str]]:
        """Return the results of each candidate. Candidates after the first that ended as ``bad`` may be missing."""
        jobs = {
            f"{number}.{turn}": FarmJob(
                f"{number}.{turn}", os.path.abspath(one.artifact), "replay", options_of([*words, *one.options])
            )
            for number, one in enumerate(candidates)
            for turn in range(repeats)
        }
        ended: dict[str, str] = {}
        found: dict[str, list[str]] = {}
        results = self._session.results(list(jobs.values()))
        for result in results:
            with log.open("a", encoding="utf-8") as file:
                file.write(result.log)
            ended[result.label] = _signature(result, log)
            for number, one in enumerate(candidates):
                trial = _trial([ended.get(f"{number}.{turn}") for turn in range(repeats)], bad)
                if trial is None:
                    break
                found[one.name] = trial
                if bad and bad in trial:
                    results.close()
                    return found
        return found


def options_of(words: Sequence[str]) -> dict[str, str]:
    """Return the options of a replay as NAME to value, from words such as ``--rtol 1e-3`` and
    ``--kernel-flags=-O1``."""
    options = {"FORCE": "1"}
    left = list(words)
    while left:
        flag, given, value = left.pop(0).partition("=")
        name = flag.lstrip("-").upper().replace("-", "_")
        options["PLATFORM" if name == "P" else name] = value if given else left.pop(0)
    return options


def _trial(ended: Sequence[str | None], bad: str) -> list[str] | None:
    """Return the results that a trial would have: all up to the first bad one. None if a result before that is
    missing."""
    found: list[str] = []
    for one in ended:
        if one is None:
            return None
        found.append(one)
        if one == bad:
            break
    return found


def _signature(result: FarmResult, log: Path) -> str:
    try:
        return signature(msgspec.json.decode(result.verdict, type=Verdict))
    except msgspec.MsgspecError:
        return f"no verdict; see {log}"
    except ArtifactError as error:
        return str(error)
