"""MEMORY=weak: every planted omission is found at its line, alone, and its values are what the device might have."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from pypto_build.artifact import load_artifact
from pypto_build.artifact.distributed import load_distributed
from pypto_build.artifact.distributed import main as sign_distributed
from pypto_build.artifact.pt import read_pt
from pypto_build.diagnose.findings import Finding, read_report
from pypto_build.diagnose.flaky.__main__ import main as flaky
from pypto_build.diagnose.hazards.__main__ import main as hazards
from pypto_build.diagnose.hazards.__main__ import main as hazards_of_ranks
from pypto_build.diagnose.hazards.record import read_record
from pypto_build.replay import Request, replay
from pypto_build.replay.run_options import SettingValue
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


def assert_found(bug: Bug, artifact: Path, status: int, findings: list[Finding]) -> None:
    """The one finding, at its line."""
    assert [(finding.rule, finding.path) for finding in findings] == [(bug.rule, bug.file)]
    assert status == 1
    assert bug.at in (artifact / bug.file).read_text().splitlines()[findings[0].line - 1]
    assert bug.says in "\n".join(findings[0].lines)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bug(bug: Bug, tmp_path: Path) -> None:
    artifact = copy_example(bug.artifact, tmp_path, bug.edits)
    status, findings = look(artifact, tmp_path / "out")
    assert_found(bug, artifact, status, findings)
    if bug.fixed:
        apply(artifact, findings[0].edits)
        assert look(artifact, tmp_path / "out") == (0, [])


@pytest.mark.parametrize("bug", OF_RANKS, ids=lambda bug: bug.name)
def test_planted_bug_between_ranks(bug: Bug, tmp_path: Path) -> None:
    artifact = tmp_path / bug.artifact
    shutil.copytree(DISTRIBUTED / bug.artifact, artifact)
    for file, old, new in bug.edits:
        text = (artifact / file).read_text()
        assert text.count(old) == 1
        (artifact / file).write_text(text.replace(old, new))
    status, findings = look_at_ranks(artifact, tmp_path / "out")
    assert_found(bug, artifact, status, findings)
    apply(artifact, findings[0].edits)
    assert look_at_ranks(artifact, tmp_path / "out") == (0, [])


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
def test_examples_are_clean(name: str, tmp_path: Path) -> None:
    assert look(copy_example(name, tmp_path), tmp_path / "out") == (0, [])


@pytest.mark.parametrize("name", sorted(path.name for path in DISTRIBUTED.glob("_jit_*")))
def test_distributed_examples_are_clean(name: str, tmp_path: Path) -> None:
    shutil.copytree(DISTRIBUTED / name, tmp_path / name)
    assert look_at_ranks(tmp_path / name, tmp_path / "out") == (0, [])


def run(artifact: Path, out: Path, **options: SettingValue) -> tuple[str, dict[str, bytes]]:
    """Replay what `look` has built; the status and the outputs."""
    request = Request(
        artifact_dir=artifact,
        build_dir=out,
        binaries=out / "weak",
        results=out / "replay",
        embedded=embedded_module(),
        platform="a2a3sim",
        options=options,
    )
    verdict = replay(request, write=None)
    return verdict.status, {
        path.stem: bytes(read_pt(path).data) for path in sorted((out / "replay" / "actual").iterdir())
    }


def planted(name: str, tmp_path: Path) -> tuple[Path, Path]:
    """The artifact with a bug of the corpus, and where it is built."""
    bug = next(bug for bug in BUGS if bug.name == name)
    artifact, out = copy_example(bug.artifact, tmp_path, bug.edits), tmp_path / "out"
    build_checked(artifact, out, WEAK)
    return artifact, out


def test_a_load_behind_flags_finds_what_was_there_before(tmp_path: Path) -> None:
    """As on the device, and on no other simulation; the same seed does the same again, and a seed may let it pass."""
    artifact, out = planted("store that is loaded again behind flags", tmp_path)
    assert run(artifact, out)[0] == "pass"
    late = run(artifact, out, memory="weak")
    assert late[0] == "mismatch"
    assert run(artifact, out, memory="weak") == late
    seeds = [run(artifact, out, memory="weak", seed=seed) for seed in (1, 2, 3, 4)]
    assert {status for status, _ in seeds} == {"pass", "mismatch"}
    assert [run(artifact, out, memory="weak", seed=seed) for seed in (1, 2, 3, 4)] == seeds


def test_a_line_is_written_back_whole(tmp_path: Path) -> None:
    """The stored float of the line's 16 is kept, and the other 15 have their old values."""
    artifact, out = planted("scalar into an old line", tmp_path)
    strong, weak = (run(artifact, out, memory=memory)[1]["f"] for memory in ("", "weak"))
    differing = np.flatnonzero(np.frombuffer(strong, np.int32) != np.frombuffer(weak, np.int32))
    assert differing.tolist() == [0, *range(2, 16)]


def test_a_line_that_nobody_cleans_reaches_nobody(tmp_path: Path) -> None:
    artifact, out = planted("row that stays in the data cache", tmp_path)
    assert run(artifact, out)[1] != run(artifact, out, memory="weak")[1]


def test_flaky_tries_when_stores_are_visible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact, out = planted("store that is loaded again behind flags", tmp_path)
    words = [
        str(artifact),
        "--build-dir",
        str(out),
        "--embedded",
        str(embedded_module()),
        "--binaries",
        str(out / "weak"),
    ]
    assert flaky([*words, "--memory-model", "weak", "--rounds", "3", "--json", str(out / "found.json")]) == 1
    (finding,) = read_report(out / "found.json").findings
    assert finding.rule == "flaky/memory"
    assert "varies in" in finding.message and "MEMORY=weak SEED=0" in finding.message


@pytest.mark.parametrize(
    ("marker", "rules"),
    [
        ("static inline void dcci(void *, int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }", []),
        ("static inline void dcci(void *, int) {}", ["memory/unclean-store"]),
    ],
    ids=("with a fence", "that does nothing"),
)
def test_a_kernel_that_brings_its_own_dcci(marker: str, rules: list[str], tmp_path: Path) -> None:
    bug = next(bug for bug in BUGS if bug.name == "row that stays in the data cache")
    artifact = copy_example(bug.artifact, tmp_path, bug.edits)
    path = artifact / bug.file
    text = path.read_text().replace("using namespace pto;\n", f"using namespace pto;\n{marker}\n", 1)
    assert marker in text
    path.write_text(text.replace("  return;\n", "  dcci((void *)v3, 1);\n  return;\n", 1))
    assert [finding.rule for finding in look(artifact, tmp_path / "out")[1]] == rules


_INSTRUCTIONS = """
  MGATHER(v7, v11, v13i);
  MSCATTER(v20, v17, v13i);
  comm::TPUT(v20, v11, v17);
  comm::TGET(v20, v11, v17);
  TPREFETCH(v7, v11);
"""


def test_what_instructions_do_is_no_access_of_the_kernel(tmp_path: Path) -> None:
    """Their loops are compiled into the kernel, or stand beside it; neither is plain C++ of the kernel's."""
    artifact = copy_example("_jit_vector_dag", tmp_path)
    path = artifact / "kernels/aiv/kernel_mul.cpp"
    index = "Tile<TileType::Vec, int32_t, 1, 128, BLayout::RowMajor, 1, 128>"
    before = f"{index} v13i; TASSIGN(v13i, 131072); TEXPANDS(v13i, 0); pipe_barrier(PIPE_ALL);"
    text = path.read_text().replace("  TSTORE(v20, v17);", f"  {before}\n{_INSTRUCTIONS}  TSTORE(v20, v17);", 1)
    path.write_text(text)
    look(artifact, tmp_path / "out")
    record = read_record(tmp_path / "out" / "weak" / "dfx_outputs")
    kernel = next(kernel.func_id for kernel in load_artifact(artifact).kernels if kernel.name == "kernel_mul")
    names = {site.instruction for site in record.sites if site.kernel == kernel}
    assert {"MGATHER", "MSCATTER", "TPUT", "TGET", "TPREFETCH"} <= names
    assert not {name for name in names if name.startswith("plain")}


def test_the_page_of_rules_names_what_is_planted() -> None:
    page = (EXAMPLES.parents[1] / "docs" / "dev" / "memory.md").read_text(encoding="utf-8")
    rules = page.partition("<!-- rules: begin -->")[2].partition("<!-- rules: end -->")[0]
    rows = [line.strip("| ").split(" | ") for line in rules.splitlines() if line.startswith("|")][2:]
    assert [row[0] for row in rows] == [str(number) for number in range(1, len(rows) + 1)]
    assert {row[-1] for row in rows} <= {bug.name for bug in (*BUGS, *OF_RANKS)}
