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
from pypto_build.diagnose.findings import Report, as_json, keep, state_of
from pypto_build.diagnose.recorded.names import artifact_names
from pypto_build.diagnose.recorded.ranks import RanksRun
from pypto_build.diagnose.speed.advice import advise, limit_finding
from pypto_build.diagnose.speed.answer import chip_rates, document_of, positions_of
from pypto_build.diagnose.speed.document import Gain, PredictionDocument
from pypto_build.diagnose.speed.model import Model, predicted
from pypto_build.diagnose.speed.record import read_recording
from pypto_build.diagnose.speed.text import headline, microseconds, screen, span, unpriced_lines
from pypto_build.replay.chips.records import HOST


def answer_ranks(options: argparse.Namespace, directory: Path, say: Callable[..., None]) -> int:
    """Print the predictions of all dispatches. Returns 1 if a price is missing or a rank takes too long, else 0."""
    for option in ("WHATIF", "OTHER", "CALIBRATE", "EXPORT"):
        if value := getattr(options, "what_if" if option == "WHATIF" else option.lower()):
            raise ArtifactError(
                f"{option}={value}",
                "works only for one chip program",
                "name a directory under next_levels/ with JIT=",
            )
    rates = chip_rates(options.chip_name, options.platform, options.rates)
    run = RanksRun(options.artifact, directory.parent, options.platform)
    documents: dict[str, PredictionDocument] = {}
    by_rank: dict[int, list[str]] = defaultdict(list)
    gains: dict[tuple[str, str], Gain] = {}
    wrong: dict[str, None] = {}
    for row in run.dispatches:
        if row.rank == HOST or not (run.directory_of(row) / "instructions.json").is_file():
            continue
        recording = read_recording(run.directory_of(row))
        model = Model(recording, rates)
        prediction = predicted(model)
        positions = positions_of(recording, options.artifact)
        names = artifact_names(run.program_of(row))
        title = run.title(row)
        kernels = {kernel.kernel: names.kernel(kernel.kernel) for kernel in prediction.kernels}
        advice = advise(recording, rates, prediction, kernels, positions, options.artifact, model.hits)
        documents[title] = document_of(prediction, names, positions, rates, row.program, gains=advice)
        for gain in advice:
            key = gain.finding.rule, gain.finding.position or f"{row.program}: {gain.finding.message}"
            gains[key] = max(gain, gains.get(key, gain), key=lambda one: one.gain_us)
        by_rank[row.rank].append(title)
        wrong |= dict.fromkeys(unpriced_lines(prediction, recording, positions))
        say(f"[speed] {title}: {headline(prediction)}")
        lines = screen(prediction, recording, documents[title].names, positions)
        say(*(f"[speed]   {line}".rstrip() for line in lines[lines.index("") + 1 :]))
    if not documents:
        raise ArtifactError(
            options.artifact,
            "is a distributed artifact without a record of instructions",
            "replay the artifact first",
        )
    times = {rank: sum(documents[title].prediction.time_us for title in titles) for rank, titles in by_rank.items()}
    slowest = max(times, key=lambda rank: times[rank])
    dispatches = [documents[title].prediction for title in by_rank[slowest]]
    low, high = sum(one.low_us for one in dispatches), sum(one.high_us for one in dispatches)
    longest = f"rank {slowest} takes longest: {microseconds(times[slowest])} {span(low, high, times[slowest])}"
    say(f"[speed] {longest}, without waits for others")
    whole = msgspec.structs.replace(dispatches[0], time_us=times[slowest], low_us=low, high_us=high)
    limit = () if options.max_time is None else (limit_finding(whole, options.max_time),)
    findings = (*limit, *(gain.finding for gain in sorted(gains.values(), key=lambda one: -one.gain_us)))
    say(*(line for finding in findings for line in finding.lines))
    report = Report("speed", options.artifact.name, findings, state=state_of(options.artifact))
    keep(report, options.artifact, options.build_dir, options.sarif)
    if options.findings:
        write_bytes(options.findings, as_json(report))
    say(*wrong)
    if options.json:
        write_bytes(options.json, msgspec.json.format(msgspec.json.encode(documents), indent=1) + b"\n")
    return int(bool(wrong) or any(finding.level == "error" for finding in limit))
