"""Checks device rules that only a run of checked kernels (CHECK=1) decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from pypto_build.artifact.errors import ArtifactError
from pypto_build.artifact.files import read_record
from pypto_build.artifact.instruction_sites import AccessSite, Executed
from pypto_build.device.run import RunRules
from pypto_build.facts.broken_rules import BrokenRule
from pypto_build.replay.request import Request

_AGAIN = "replay again"


class ExecutedRecord(msgspec.Struct, frozen=True):
    """The instructions that a run executed, and with which operands."""

    sites: list[AccessSite]
    executed: list[Executed]


def rules_of_run(request: Request, kernels: Mapping[int, str]) -> RunRules:
    """Return the rules that a run is checked against, for kernels whose sources are named by `func_id`."""
    root = request.artifact_dir
    sources = {number: root / source for number, source in kernels.items()}
    return RunRules(sources, root, request.platform.removesuffix("sim"))


def read_executed(path: Path) -> ExecutedRecord:
    """Return the recorded instructions of a run. Raises a usage error for another file."""
    record = read_record(path, ExecutedRecord, "is no record of operands", _AGAIN)
    if any(one.site >= len(record.sites) or len(one.numbers) % 8 for one in record.executed):
        raise ArtifactError(path, "has operands of an instruction that the file does not define", _AGAIN)
    return record


def broken_in_run(request: Request, rules: RunRules) -> Iterator[BrokenRule]:
    """Yield the rules that the run broke, and remove its record. A run that ended early may have none."""
    path = request.results_dir / "dfx_outputs" / "executed.json"
    if not path.exists():
        return
    record = read_executed(path)
    path.unlink()
    with suppress(OSError):
        path.parent.rmdir()  # unless the run left something else
    yield from rules.broken(record.sites, record.executed)
