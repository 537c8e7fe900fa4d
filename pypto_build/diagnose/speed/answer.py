"""What `scons speed` says of a recorded run: the screen, and the prediction as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import msgspec

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.instruction_sites import AccessSite, InstructionPosition, find_positions
from pypto_build.diagnose.recorded.names import artifact_names
from pypto_build.diagnose.speed.model import Prediction, predict
from pypto_build.diagnose.speed.rates import CHIPS, DEFAULT_CHIP, Rate, Rates, rates_of, read_rates
from pypto_build.diagnose.speed.record import Recording, read_recording
from pypto_build.diagnose.speed.text import screen, unpriced_lines


class Line(msgspec.Struct, frozen=True):
    """The position of a row in the kernel's source."""

    row: int
    path: str
    line: int


class Document(msgspec.Struct, frozen=True):
    """What `JSON=` writes: the prediction, names of kernels, positions of rows, and the rates of the chip."""

    prediction: Prediction
    names: dict[int, str]
    lines: tuple[Line, ...]
    rates: tuple[Rate, ...]
    schema: int = 1


def chip_rates(chip: str, platform: str, replaced: Path | None) -> Rates:
    """Return the rates to predict with. Raises a usage error for a chip of another generation than the platform's."""
    arch = platform.removesuffix("sim")
    name = chip or DEFAULT_CHIP[arch]
    if CHIPS.get(name) != arch:
        fitting = [known for known, of in CHIPS.items() if of == arch]
        raise ArtifactError(f"CHIP={name}", f"is no chip of {platform}", f"it is one of {', '.join(fitting)}")
    return rates_of(name, read_rates(replaced) if replaced else ())


def positions_of(recording: Recording, root: Path) -> dict[int, InstructionPosition]:
    """Return the source positions of all rows that have one."""
    sites = {
        number: AccessSite(0, row.name, row.file, str(row.offset))
        for number, row in enumerate(recording.rows)
        if row.file
    }
    found = find_positions(sites.values(), root)
    return {number: found[site] for number, site in sites.items()}


def answer(given: argparse.Namespace, directory: Path, say: Callable[..., None]) -> int:
    """Print the prediction for a recorded run. Returns 1 if an instruction has no price, else 0."""
    rates = chip_rates(given.chip_name, given.platform, given.rates)
    recording = read_recording(directory)
    prediction = predict(recording, rates)
    names = {kernel.kernel: artifact_names(given.artifact).kernel(kernel.kernel) for kernel in prediction.kernels}
    positions = positions_of(recording, given.artifact)
    say(*(f"[speed] {line}".rstrip() for line in screen(prediction, recording, names, positions)))
    wrong = unpriced_lines(prediction, recording, positions)
    say(*wrong)
    if given.json:
        lines = tuple(Line(number, at.path, at.line) for number, at in positions.items() if at.line)
        document = Document(prediction, names, lines, tuple(rates.rows.values()))
        write_bytes(given.json, msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    return int(bool(wrong))
