"""Findings within single chip programs of a distributed artifact, which do not depend on other ranks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from pypto_build.artifact import load_artifact
from pypto_build.artifact.distributed import load_distributed
from pypto_build.diagnose.findings import Finding, below
from pypto_build.diagnose.hazards.analysis import analyse
from pypto_build.diagnose.hazards.record import read_record
from pypto_build.replay.chips.records import RanksRecord


def findings_within(artifact: Path, directory: Path, record: RanksRecord, arch: str) -> Iterator[Finding]:
    """Yield the findings within each dispatch that a run recorded in `directory`; `arch` has the device's rules.

    The same finding on several ranks is yielded once, with the ranks in its details.
    """
    chips = load_distributed(artifact).chips
    reported: dict[tuple[object, ...], tuple[Finding, set[int]]] = {}
    for dispatch in record.dispatches:
        of_rank = directory / f"rank{dispatch.rank}" / f"d{dispatch.index}"
        if dispatch.program not in chips or not (of_rank / "accesses.json").is_file():
            continue
        chip = chips[dispatch.program]
        root = PurePosixPath(chip.relative_to(artifact) if chip.is_relative_to(artifact) else chip)
        for one in analyse(load_artifact(chip), read_record(of_rank), (), of_chip=True, arch=arch):
            key = (one.rule, dispatch.program, one.path, one.line, one.kernel, one.related)
            reported.setdefault(key, (below(one, root), set()))[1].add(dispatch.rank)
    for finding, ranks in reported.values():
        where = f"on rank{'s' * (len(ranks) > 1)} {', '.join(map(str, sorted(ranks)))}"
        yield replace(finding, detail=(*finding.detail, where))
