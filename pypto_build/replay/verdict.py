"""Reads and writes verdict.json, the single record of a replay.

`schema`, the status names and the fields up to `error` are fixed, since people and scripts read them. New fields are
added at the end. The file is written under a temporary name and renamed, so a reader never sees half of it.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import msgspec

from pypto_build.artifact.files import read_record, write_bytes
from pypto_build.facts.broken_rules import BrokenRule, counted
from pypto_build.runtime.faults import FaultRecord

Status = Literal[
    "pass", "mismatch", "unchecked", "usage_error", "build_error", "golden_error", "runtime_error", "hang",
    "rule_broken",
]  # fmt: skip
OutputStatus = Literal["pass", "mismatch", "unchecked"]
Number = float | int | bool | str

SCHEMA = 1
#: The error kind of a write next to a tensor.
OUT_OF_BOUNDS = "out_of_bounds"

#: Exit status of `python -m pypto_build.replay` and of `pypto-build` for each verdict.
EXIT_STATUS: dict[Status, int] = {
    "pass": 0,
    "mismatch": 1,
    "usage_error": 2,
    "build_error": 3,
    "golden_error": 4,
    "runtime_error": 5,
    "hang": 6,
    "unchecked": 7,
    "rule_broken": 8,
}


class Mismatch(msgspec.Struct):
    """One element that differs; `index` has one coordinate per dimension. NaN and infinities are written as strings."""

    index: list[int]
    actual: Number
    expected: Number


class OutputResult(msgspec.Struct):
    """The comparison of one output. `max_abs` and `max_rel` are over all elements that are finite on both sides."""

    name: str
    status: OutputStatus
    shape: list[int]
    dtype: str
    numel: int
    mismatched: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    first: list[Mismatch] = []
    comparator: str = "allclose"
    hints: list[str] = []
    detail: str = ""
    tainted: bool = False  # elements were computed from memory that no task had written; this flag is not written


class ErrorInfo(msgspec.Struct):
    """An error: `kind` (a status, or a finer name), one line of message, a hint for the fix, and lines of detail.

    `fault` is the record of a fault that the runtime noticed. `line` and `address` are the place of a crash and the
    address that it touched. `events` are the last events of all cores. verdict.json has only the texts and `code`, the
    error number of upstream's runtime, if there is one.
    """

    kind: str
    message: str
    task: str | None = None
    kernel: str | None = None
    hint: str = ""
    detail: list[str] = []
    fault: FaultRecord | None = None  # the source of the message; not written
    code: int | None = None
    line: str = ""
    address: int | None = None
    events: list[str] = []  # the last before it; not written

    def __str__(self) -> str:
        where = [f"task {self.task}"] if self.task is not None else []
        where += [f"kernel '{self.kernel}'"] if self.kernel is not None else []
        missing = ", ".join(part for part in where if part not in self.message)
        missing = f" ({missing})" if missing else ""
        return f"{self.message}{missing}" + (f"; {self.hint}" if self.hint else "")


class PredictedTime(msgspec.Struct, frozen=True):
    """The time of the run on a device, as `scons speed` predicts it: microseconds, with the range."""

    chip: str
    time_us: float
    low_us: float
    high_us: float


class Verdict(msgspec.Struct):
    """The result of one replay. `run_s` is the median over the rounds of the time from submission to the last task."""

    status: Status
    artifact: str
    platform: str
    runtime: str
    vintage: str = ""
    cached: bool = False
    tasks: int = 0
    run_s: float = 0.0
    outputs: list[OutputResult] = []
    error: ErrorInfo | None = None
    rtol: float = 1e-5
    atol: float = 1e-5
    rounds: int = 0
    longest_s: float = 0.0  # the longest round, as its time limit counts
    seed: int | None = None
    requested: str = ""  # the platform that was asked for
    unproven: str = ""  # why a pass holds for this run alone
    schema: int = SCHEMA
    rules: list[BrokenRule] = []  # device rules that kernels break
    prediction: PredictedTime | None = None  # of `scons speed`, in OUT/check/verdict.json

    def __post_init__(self) -> None:
        """Set the requested platform to ``platform``, unless another one was requested."""
        self.requested = self.requested or self.platform

    @property
    def exit_status(self) -> int:
        """Return the process exit status for this verdict."""
        return EXIT_STATUS[self.status]

    @property
    def broken(self) -> str:
        """Return the text `, 1 device rule broken`, or nothing; it follows the status."""
        return f", {counted(self.rules)}" if self.rules else ""

    @property
    def where(self) -> str:
        """Return the text after the status: the platform that replaced the requested one, and unproven results."""
        platform = f" on the CPU, as {self.platform}" if self.requested != self.platform else ""
        return platform + (f" (unproven: {self.unproven})" if self.unproven else "")


def rule_lines(verdict: Verdict) -> list[str]:
    """Return the device rules that kernels break, one a line."""
    return [f"[rules] {rule}" for rule in verdict.rules]


def json_number(value: float | int | bool) -> Number:
    """Return `value` in a form that JSON can hold: NaN and infinities become "nan", "inf" and "-inf"."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def write_verdict(verdict: Verdict, path: Path) -> None:
    """Write `path` atomically, `schema` first, indented for people."""
    fields = msgspec.to_builtins(verdict)
    ordered = {"schema": fields.pop("schema"), **fields}
    if verdict.error is not None:
        for name in ("fault", "line", "address", "events"):
            del ordered["error"][name]
        if verdict.error.code is None:
            del ordered["error"]["code"]
    for output in ordered["outputs"]:
        del output["tainted"]
    write_bytes(path, msgspec.json.format(msgspec.json.encode(ordered), indent=2) + b"\n")


def read_verdict(path: Path) -> Verdict:
    """Return the verdict in `path`. Raises a usage error if the file is missing or invalid."""
    return read_record(path, Verdict, "is not a verdict", "replay again", unread="replay first", schema=SCHEMA)
