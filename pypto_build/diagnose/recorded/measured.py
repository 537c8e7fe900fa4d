"""Measurement of a timeline: warm or cold, number of rounds, and spread over the rounds."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import decode_json, read_bytes
from pypto_build.replay.timing import TIMING_NAME, Spread, Timing

COLD = "taken cold: first tasks take many times what they take later, as they load and touch what they need"


class Measured:
    """Content of `timing.json` beside a timeline. Timelines of simpler and of older replays have none."""

    def __init__(self, timing: Timing | None) -> None:
        self.timing = timing

    @cached_property
    def tasks(self) -> dict[int, Spread]:
        """Return the time of each task over the rounds, by id; empty after a single round."""
        return {spread.task: spread for spread in self.timing.tasks} if self.timing else {}

    @property
    def is_cold(self) -> bool:
        """Return whether the record says that no run came before to warm up."""
        return self.timing is not None and not self.timing.warm

    @property
    def line(self) -> str:
        """The rounds in words; empty where nothing is known of them."""
        if self.timing is None:
            return ""
        if self.timing.rounds == 1:
            return COLD if self.is_cold else "after a warm-up round; ROUNDS=n gives median and spread"
        spread = spread_text(self.timing.makespan)
        more = f"{self.timing.rounds} rounds: makespan {spread}; shown is round {self.timing.shown}, the median"
        return f"{more}; {COLD}" if self.is_cold else f"after a warm-up round, {more}"


def spread_text(spread: Spread) -> str:
    """`12.3 us (11.9 to 14.0)`."""
    return f"{spread.median:,.1f} us ({spread.least:,.1f} to {spread.most:,.1f})"


def read_measured(timeline: Path) -> Measured:
    """Read `timing.json` beside a timeline. Raises a usage error that names the file and its fault."""
    path = timeline.with_name(TIMING_NAME)
    try:
        return Measured(decode_json(read_bytes(path), Timing))
    except FileNotFoundError:
        return Measured(None)
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", "run again with SWIMLANE=4") from None
    except msgspec.MsgspecError as error:
        raise ArtifactError(path, f"is no record of rounds: {error}", "run again with SWIMLANE=4") from None
