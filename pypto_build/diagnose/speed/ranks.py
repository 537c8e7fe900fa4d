"""`scons speed` on a distributed artifact: each dispatch of each rank by itself, and the rank that takes longest.

What ranks wait for each other is not predicted: a rank's time is the sum of its dispatches.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import write_bytes
from pypto_build.diagnose.recorded.names import artifact_names
from pypto_build.diagnose.recorded.ranks import RanksRun
from pypto_build.diagnose.speed.answer import chip_rates, document_of, positions_of
from pypto_build.diagnose.speed.document import PredictionDocument
from pypto_build.diagnose.speed.model import predict
from pypto_build.diagnose.speed.record import read_recording
from pypto_build.diagnose.speed.text import headline, microseconds, screen, span, unpriced_lines
from pypto_build.replay.chips.records import HOST


def answer_ranks(options: argparse.Namespace, directory: Path, say: Callable[..., None]) -> int:
    """Print the predictions of all dispatches. Returns 1 if an instruction has no price, else 0."""
    for option, value in (("WHATIF", options.what_if), ("OTHER", options.other), ("CALIBRATE", options.calibrate)):
        if value:
            raise ArtifactError(f"{option}={value}", "is for one chip program", "name one of next_levels/ with JIT=")
    rates = chip_rates(options.chip_name, options.platform, options.rates)
    run = RanksRun(options.artifact, directory.parent, options.platform)
    documents: dict[str, PredictionDocument] = {}
    by_rank: dict[int, list[str]] = defaultdict(list)
    wrong: dict[str, None] = {}
    for row in run.dispatches:
        if row.rank == HOST or not (run.directory_of(row) / "instructions.json").is_file():
            continue
        recording = read_recording(run.directory_of(row))
        prediction = predict(recording, rates)
        positions = positions_of(recording, options.artifact)
        names = artifact_names(run.program_of(row))
        title = run.title(row)
        documents[title] = document_of(prediction, names, positions, rates, row.program)
        by_rank[row.rank].append(title)
        wrong |= dict.fromkeys(unpriced_lines(prediction, recording, positions))
        say(f"[speed] {title}: {headline(prediction)}")
        lines = screen(prediction, recording, documents[title].names, positions)
        say(*(f"[speed]   {line}".rstrip() for line in lines[lines.index("") + 1 :]))
    if not documents:
        raise ArtifactError(options.artifact, "its ranks left no record of instructions", "replay it first")
    times = {rank: sum(documents[title].prediction.time_us for title in titles) for rank, titles in by_rank.items()}
    slowest = max(times, key=lambda rank: times[rank])
    longest_ones = [documents[title].prediction for title in by_rank[slowest]]
    range_of = span(sum(one.low_us for one in longest_ones), sum(one.high_us for one in longest_ones))
    longest = f"rank {slowest} takes longest: {microseconds(times[slowest])} {range_of}"
    say(f"[speed] {longest}, without waits for others")
    say(*wrong)
    if options.json:
        write_bytes(options.json, msgspec.json.format(msgspec.json.encode(documents), indent=1) + b"\n")
    return int(bool(wrong))
