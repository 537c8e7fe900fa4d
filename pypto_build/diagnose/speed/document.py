"""The file of `JSON=`: a prediction with all that it takes to read it."""

from __future__ import annotations

import msgspec

from pypto_build.diagnose.findings import Finding
from pypto_build.diagnose.speed.model import Prediction
from pypto_build.diagnose.speed.rates import Rate


class Line(msgspec.Struct, frozen=True):
    """The position of a row in the kernel's source."""

    row: int
    path: str
    line: int


class PipeSpan(msgspec.Struct, frozen=True, array_like=True):
    """An instruction on a pipe of a core: its row and task, and microseconds of the run."""

    core: int
    pipe: int
    row: int
    task: int
    start_us: float
    end_us: float


class Gain(msgspec.Struct, frozen=True):
    """A finding and the microseconds of the whole run that its edit saves by the model."""

    finding: Finding
    gain_us: float
    after_us: float


class PredictionDocument(msgspec.Struct, frozen=True):
    """The content of the file: the prediction, names of kernels, positions of rows, and the rates of the chip.

    `spans` is the timeline of pipes, of the first blocks. `state` is the digest of the artifact that was predicted.
    """

    prediction: Prediction
    names: dict[int, str]
    lines: tuple[Line, ...]
    rates: tuple[Rate, ...]
    what_if: dict[str, Prediction] = {}
    artifact: str = ""
    findings: tuple[Gain, ...] = ()
    spans: tuple[PipeSpan, ...] = ()
    state: str = ""
    schema: int = 1
