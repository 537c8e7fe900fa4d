"""Every planted bug is found at its line, alone, and goes away by the edit that the finding names."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.diagnose.findings import Finding, read_report
from pypto_build.diagnose.hazards.__main__ import main
from tests.diagnose.checked import EXAMPLES, apply, build_checked, copy_example
from tests.diagnose.corpus import Bug
from tests.diagnose.corpus.hazards import BUGS
from tests.diagnose.corpus.table import BEGIN, END, table
from tests.replay.builder import embedded_module


def hazards(artifact: Path, out: Path) -> tuple[int, list[Finding]]:
    """Build and look; the exit status and the findings."""
    build_checked(artifact, out)
    report = out / "found.json"
    status = main([str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), "--json", str(report)])
    return status, list(read_report(report).findings)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bug(bug: Bug, tmp_path: Path) -> None:
    artifact = copy_example(bug.artifact, tmp_path, bug.edits)
    status, found = hazards(artifact, tmp_path / "out")
    assert [finding.rule for finding in found] == [bug.rule]
    finding = found[0]
    assert status == int(finding.level != "note")
    assert finding.path == bug.file
    assert bug.at in (artifact / bug.file).read_text().splitlines()[finding.line - 1]
    assert bug.says in "\n".join(finding.lines)
    if bug.fixed:
        assert finding.edits
        apply(artifact, finding.edits)
        status, found = hazards(artifact, tmp_path / "out")
        assert (status, tuple(finding.rule for finding in found)) == (int(bool(bug.left)), bug.left)


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
def test_examples_are_clean(name: str, tmp_path: Path) -> None:
    assert hazards(copy_example(name, tmp_path), tmp_path / "out") == (0, [])


def test_documented_table() -> None:
    """The table in the documentation is the corpus: python -m tests.diagnose.corpus.table prints it."""
    text = (EXAMPLES.parents[1] / "docs" / "hazards.md").read_text()
    assert text.split(BEGIN)[1].split(END)[0].strip() == table().strip()
