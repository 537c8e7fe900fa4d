"""`scons report` on a distributed artifact: one HTML file about the last replay, with the timelines of all ranks.

python -m pypto_build.diagnose.ranks.report ARTIFACT_DIR --build-dir OUT --chip NAME=DIR … [--output report.html]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.distributed import Distributed, load_distributed
from pypto_build.artifact.layout import load_artifact
from pypto_build.diagnose.console import command
from pypto_build.diagnose.findings import in_order
from pypto_build.diagnose.ranks.lint import lint_ranks
from pypto_build.diagnose.ranks.picture import ranks_data
from pypto_build.diagnose.ranks.run import RanksRun, add_chip_options
from pypto_build.diagnose.recorded.evidence import Evidence
from pypto_build.diagnose.repeat import Repeat
from pypto_build.diagnose.report.__main__ import parser as parser_of_one
from pypto_build.diagnose.report.page import write_report
from pypto_build.diagnose.report.surroundings import environment
from pypto_build.diagnose.report.whole import (
    commands,
    current_reports,
    facts,
    finding_data,
    listed,
    looked,
    source_data,
    verdict_data,
)
from pypto_build.replay.chips.records import RanksRecord


def _sources(artifact: Distributed) -> dict[Path, str]:
    """Driver, host callables, and the sources of all chip programs."""
    found = {artifact.driver: "host driver"}
    found |= dict.fromkeys(artifact.sub_workers.values(), "host callable")
    for name, chip in artifact.chips.items():
        try:
            found |= {path: f"{name}: {about}" for path, about in listed(load_artifact(chip)).items()}
        except ArtifactError:  # noqa: PERF203 - lint says what is wrong with it
            continue
    return found


def report_data(run: RanksRun, given: argparse.Namespace, repeat: Repeat) -> dict[str, Any]:
    """All that the page shows."""
    evidence = Evidence(run.root, run.build_dir, run.platform)
    verdict = evidence.verdict
    assert verdict is not None
    artifact = load_distributed(run.root)
    reports, outdated = current_reports(evidence)
    findings = [*(one for report in reports for one in report.findings), *lint_ranks(run.root, run.platform)]
    sources = source_data(artifact.root, _sources(artifact), in_order(findings), verdict)
    has_records = (run.directory / "ranks.json").is_file()
    return {
        "artifact": verdict.artifact,
        "facts": [["ranks", _ranks(run.record) if has_records else str(artifact.ranks)], *facts(verdict)],
        "verdict": verdict_data(evidence, verdict, given.data),
        "findings": [finding_data(finding, sources) for finding in in_order(findings)],
        "findingsNote": looked(reports, outdated, bool(findings)),
        "ranks": ranks_data(run) if has_records else None,
        "graph": None,
        "timeline": None,
        "sources": sources,
        "environment": environment(evidence, given.data),
        "commands": commands(evidence, verdict, repeat, given.embedded, given.chip),
    }


def _ranks(record: RanksRecord) -> str:
    """`2`, or `2, on devices 4, 5` where these are not those from 0 on."""
    plain = record.devices in ([], list(range(record.world)))
    return str(record.world) if plain else f"{record.world}, on devices {', '.join(map(str, record.devices))}"


@command("report", parser_of_one, add_chip_options)
def main(given: argparse.Namespace) -> int:
    """Write the report; 0, or 2 where there is nothing to report on."""
    run = RanksRun(given.artifact, given.build_dir, given.platform)
    return write_report(given, lambda repeat: report_data(run, given, repeat))


if __name__ == "__main__":
    sys.exit(main())
