"""The answer of `scons speed` to a recorded run: the screen, and the prediction as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import from_here, read_record, write_bytes
from pypto_build.artifact.instruction_sites import AccessSite, InstructionPosition, find_positions
from pypto_build.diagnose.console import one_of
from pypto_build.diagnose.findings import Report, as_json, keep, state_of
from pypto_build.diagnose.recorded.names import Names, artifact_names
from pypto_build.diagnose.speed.advice import advise, limit_finding
from pypto_build.diagnose.speed.calibrate import calibrate, measured_times, write_rates
from pypto_build.diagnose.speed.document import Gain, Line, PredictionDocument
from pypto_build.diagnose.speed.model import Model, Prediction, predict, predicted
from pypto_build.diagnose.speed.rates import CHIPS, DEFAULT_CHIP, Rates, rates_of, read_rates
from pypto_build.diagnose.speed.record import Recording, read_recording
from pypto_build.diagnose.speed.text import changed_line, compared_lines, screen, unpriced_lines
from pypto_build.diagnose.speed.timeline import FORMS, export, pipe_spans
from pypto_build.diagnose.speed.what_if import read_what_if

#: The file in OUT that keeps the last prediction, for `OTHER=`.
KEPT = "speed.json"
_LARGEST = 1 << 32


def read_document(path: Path) -> PredictionDocument:
    """Read a prediction that `JSON=` or an earlier run wrote. Raises a usage error."""
    again, first = "run `scons speed` on it again", "run `scons speed` on it first"
    return read_record(path, PredictionDocument, "is not a prediction", again, unread=first, largest=_LARGEST)


def other_document(name: str, build_dir: Path) -> PredictionDocument:
    """Return the prediction that OTHER= names: a file, or an artifact that was predicted beside this one."""
    path = Path(name)
    if path.suffix != ".json":
        beside = [build_dir.parent / path.name / KEPT, build_dir.parent / f"_jit_{path.name}" / KEPT]
        path = next((result for result in beside if result.is_file()), beside[0])
    return read_document(path)


def chip_rates(chip: str, platform: str, replaced: Path | None) -> Rates:
    """Return the rates to predict with. Raises a usage error for a chip of another generation than the platform's."""
    arch = platform.removesuffix("sim")
    name = chip or DEFAULT_CHIP[arch]
    if CHIPS.get(name) != arch:
        fitting = [candidate for candidate, of in CHIPS.items() if of == arch]
        raise ArtifactError(
            f"CHIP={name}", f"is not a chip of the platform {platform}", f"use one of {', '.join(fitting)}"
        )
    return rates_of(name, read_rates(replaced) if replaced else ())


def positions_of(recording: Recording, root: Path) -> dict[int, InstructionPosition]:
    """Return the source positions of all rows that have one."""
    sites = {
        number: AccessSite(0, row.name, row.file, str(row.offset))
        for number, row in enumerate(recording.rows)
        if row.file
    }
    result = find_positions(sites.values(), root)
    return {number: result[site] for number, site in sites.items()}


def document_of(
    prediction: Prediction,
    kernels: Names,
    positions: Mapping[int, InstructionPosition],
    rates: Rates,
    artifact: str,
    changed: Mapping[str, Prediction] | None = None,
    gains: Sequence[Gain] = (),
) -> PredictionDocument:
    """Return a prediction with names of kernels, positions of rows and the rates that it rests on."""
    names = {kernel.kernel: kernels.kernel(kernel.kernel) for kernel in prediction.kernels}
    lines = tuple(Line(number, at.path, at.line) for number, at in positions.items() if at.line)
    return PredictionDocument(
        prediction, names, lines, tuple(rates.rows.values()), dict(changed or {}), artifact, tuple(gains)
    )


def answer(options: argparse.Namespace, directory: Path, say: Callable[..., None]) -> tuple[int, Prediction]:
    """Print the prediction for a recorded run. Returns 1 if a price is missing or it takes too long, else 0; and it."""
    rates = chip_rates(options.chip_name, options.platform, options.rates)
    changes = read_what_if(options.what_if)
    one_of("EXPORT", options.export, ("", *FORMS))
    other = other_document(options.other, options.build_dir) if options.other else None
    recording = read_recording(directory)
    model = Model(recording, rates)
    prediction = predicted(model)
    changed = {name: predict(recording, rates, change) for name, change in changes.items()}
    kernels = artifact_names(options.artifact)
    names = {kernel.kernel: kernels.kernel(kernel.kernel) for kernel in prediction.kernels}
    positions = positions_of(recording, options.artifact)
    say(*(f"[speed] {line}".rstrip() for line in screen(prediction, recording, names, positions)))
    say(*(f"[speed] {changed_line(name, prediction, after)}" for name, after in changed.items()))
    if other:
        say(*(f"[speed] {line}" for line in compared_lines(options.artifact.name, prediction, names, other)))
    gains = advise(recording, rates, prediction, names, positions, options.artifact, model.hits)
    limit = () if options.max_time is None else (limit_finding(prediction, options.max_time),)
    findings = (*limit, *(gain.finding for gain in gains))
    say(*(line for finding in findings for line in finding.lines))
    report = Report("speed", options.artifact.name, findings, state=state_of(options.artifact))
    keep(report, options.artifact, options.build_dir, options.sarif)
    if options.findings:
        write_bytes(options.findings, as_json(report))
    wrong = unpriced_lines(prediction, recording, positions)
    say(*wrong)
    if options.calibrate:
        measured = measured_times(options.calibrate, recording, rates, names)
        result = calibrate(recording, rates, measured, options.calibrate.name, names)
        say(*(f"[speed] {line}" for line in write_rates(options.build_dir / "rates.toml", result)))
    if options.export:
        say(f"[speed] predicted timeline: {from_here(export(options.export, model, names, options.build_dir))}")
    document = document_of(prediction, kernels, positions, rates, options.artifact.name, changed, gains)
    document = msgspec.structs.replace(document, spans=pipe_spans(model), state=report.state)
    write_bytes(options.build_dir / KEPT, msgspec.json.encode(document))
    if options.json:
        write_bytes(options.json, msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    return int(bool(wrong) or any(finding.level == "error" for finding in findings)), prediction
