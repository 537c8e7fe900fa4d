"""MEMORY=weak: every planted omission is found at its line, alone, and its values are what the device might have."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pypto_build.artifact.distributed import load_distributed
from pypto_build.artifact.distributed import main as sign_distributed
from pypto_build.diagnose.findings import Finding, read_report
from pypto_build.diagnose.hazards.__main__ import main as hazards
from pypto_build.diagnose.hazards.ranks import main as hazards_of_ranks
from pypto_build.rules.variants import WEAK
from tests.diagnose.checked import EXAMPLES, apply, build_checked, copy_example
from tests.diagnose.corpus import Bug
from tests.diagnose.corpus.memory import BUGS, OF_RANKS
from tests.replay.builder import embedded_module

DISTRIBUTED = EXAMPLES.parent / "distributed"


def look(artifact: Path, out: Path, *more: str) -> tuple[int, list[Finding]]:
    """Build and look; the exit status and the findings."""
    build_checked(artifact, out, WEAK)
    words = [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), "--memory-model", "weak"]
    status = hazards([*words, "--json", str(out / "found.json"), *more])
    return status, list(read_report(out / "found.json").findings)


def look_at_ranks(artifact: Path, out: Path) -> tuple[int, list[Finding]]:
    """The same for a distributed artifact."""
    out.mkdir(exist_ok=True)
    assert sign_distributed([str(artifact), "--interface", str(out / "interface.json")]) == 0
    words = [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), "--memory-model", "weak"]
    for name, chip in load_distributed(artifact).chips.items():
        build_checked(chip, out / name, WEAK)
        words += ["--chip", f"{name}={out / name}"]
    status = hazards_of_ranks([*words, "--json", str(out / "found.json")])
    return status, list(read_report(out / "found.json").findings)


def assert_found(bug: Bug, artifact: Path, status: int, found: list[Finding]) -> None:
    """The one finding, at its line."""
    assert [(finding.rule, finding.path) for finding in found] == [(bug.rule, bug.file)]
    assert status == 1
    assert bug.at in (artifact / bug.file).read_text().splitlines()[found[0].line - 1]
    assert bug.says in "\n".join(found[0].lines)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bug(bug: Bug, tmp_path: Path) -> None:
    artifact = copy_example(bug.artifact, tmp_path, bug.edits)
    status, found = look(artifact, tmp_path / "out")
    assert_found(bug, artifact, status, found)
    if bug.fixed:
        apply(artifact, found[0].edits)
        assert look(artifact, tmp_path / "out") == (0, [])


@pytest.mark.parametrize("bug", OF_RANKS, ids=lambda bug: bug.name)
def test_planted_bug_between_ranks(bug: Bug, tmp_path: Path) -> None:
    artifact = tmp_path / bug.artifact
    shutil.copytree(DISTRIBUTED / bug.artifact, artifact)
    for file, old, new in bug.edits:
        text = (artifact / file).read_text()
        assert text.count(old) == 1
        (artifact / file).write_text(text.replace(old, new))
    status, found = look_at_ranks(artifact, tmp_path / "out")
    assert_found(bug, artifact, status, found)
    apply(artifact, found[0].edits)
    assert look_at_ranks(artifact, tmp_path / "out") == (0, [])


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
def test_examples_are_clean(name: str, tmp_path: Path) -> None:
    assert look(copy_example(name, tmp_path), tmp_path / "out") == (0, [])


@pytest.mark.parametrize("name", sorted(path.name for path in DISTRIBUTED.iterdir()))
def test_distributed_examples_are_clean(name: str, tmp_path: Path) -> None:
    shutil.copytree(DISTRIBUTED / name, tmp_path / name)
    assert look_at_ranks(tmp_path / name, tmp_path / "out") == (0, [])
