"""`diverge` finds every planted bug in the right task, kernel and line, and nothing where there is none."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from pypto_build.compiler.assembler import assemble_unit, body_of
from pypto_build.diagnose.diverge.__main__ import main
from pypto_build.diagnose.findings import Finding, read_report
from pypto_build.pto import parse_file
from pypto_build.pto.splice import replace_body
from tests.compiler.programs import compile_with_data
from tests.diagnose.seeds import KERNEL, MODULE, ORCHESTRATION, SEEDS, Seed
from tests.replay.builder import build_artifact, embedded_module

PROGRAM = Path(__file__).with_name("seeded_program.py")

_SMALL = """import pypto_build.compiler.language as pl

M = pl.Tensor[[8, 8], pl.FP32]

@pl.jit.incore
def run(x: M, out: pl.Out[M]):
    a = pl.load(x, [0, 0], [8, 8])
    pl.store(a + a, [0, 0], out)

@pl.jit.incore
def pointer(x: M, out: pl.Out[M]):
    a = pl.load(x, [0, 0], [8, 8])
    pl.store(a * a, [0, 0], out)

@pl.jit
def twice(x: M, y: pl.Out[M], z: pl.Out[M]):
    run(x, y)
    pointer(y, z)
"""


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifact without bugs."""
    artifact = tmp_path_factory.mktemp("clean") / "_jit_seeded"
    compile_with_data(PROGRAM, artifact)
    return artifact


def diverge(artifact: Path, out: Path, *more: str) -> tuple[int, tuple[Finding, ...]]:
    """Build, run the command line, read what it found."""
    build_artifact(artifact, out)
    words = [str(artifact), "--platform", "a2a3sim", "--build-dir", str(out), "--embedded", str(embedded_module())]
    status = main([*words, "--json", str(out / "found.json"), *more])
    return status, read_report(out / "found.json").findings


def plant(seed: Seed, clean: Path, artifact: Path) -> None:
    """A copy of the artifact with the bug; kernels of a wrong module are assembled from it."""
    shutil.copytree(clean, artifact)
    path = artifact / seed.file
    text = path.read_text()
    assert seed.old in text, f"{seed.old!r} is not in {seed.file}"
    path.write_text(text.replace(seed.old, seed.new))
    if seed.rule == MODULE:
        kernel = artifact / "kernels" / "aiv" / f"{path.stem}.cpp"
        body = assemble_unit(parse_file(str(path)), path.read_text(), path.stem, "a2a3sim", None)
        kernel.write_text(replace_body(kernel.read_text(), body_of(body, "ChipTensor")))


def test_nothing_is_found_where_nothing_is_wrong(
    clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diverge(clean, tmp_path / "out") == (0, ())
    assert "[diverge] 6 tasks in lockstep with the reference\n" in capsys.readouterr().out


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: seed.name)
def test_planted_bug(seed: Seed, clean: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    artifact = tmp_path / "_jit_seeded"
    plant(seed, clean, artifact)
    status, findings = diverge(artifact, tmp_path / "out")
    finding, text = findings[0], "\n".join(findings[0].lines)
    line = next(n for n, t in enumerate((artifact / seed.file).read_text().splitlines(), 1) if seed.at in t)
    assert (status, finding.rule, finding.tasks, finding.kernel) == (1, seed.rule, (seed.task,), seed.kernel)
    assert (finding.path, finding.line) == (seed.file, line), text
    assert seed.says in text
    if seed.rule == KERNEL:
        module = artifact / finding.related[0].path
        assert finding.related[0].message == seed.operation
        assert seed.operation in module.read_text().splitlines()[finding.related[0].line - 1]


def test_without_its_program_an_artifact_is_only_compared_with_the_golden(clean: Path, tmp_path: Path) -> None:
    artifact = tmp_path / "_jit_seeded"
    plant(next(s for s in SEEDS if s.name == "wrong scalar"), clean, artifact)
    (artifact / "compiled_files.json").unlink()
    status, findings = diverge(artifact, tmp_path / "out")
    assert status == 1
    assert {f.rule for f in findings} == {"diverge/golden"}
    assert findings[0].hint.startswith(
        "the modules, the orchestration, the inputs or the golden are wrong; if you have the program, name it with "
        "PROGRAM="
    )
    assert "differ from the golden, within [" in findings[0].message
    assert diverge(artifact, tmp_path / "out", "--program", str(PROGRAM))[1][0].rule == ORCHESTRATION
    for seed in ("0", "3"):  # that golden is what the lockstep has compared with
        assert diverge(artifact, tmp_path / "out", "--data", "reference", "--seed", seed) == (0, ())


def test_a_small_program_whose_kernels_are_called_like_helpers(tmp_path: Path) -> None:
    """Inputs that fill no page are where the arena has them, and the program is entered by its own name."""
    program, artifact = tmp_path / "twice.py", tmp_path / "_jit_twice"
    program.write_text(_SMALL)
    compile_with_data(program, artifact)
    assert diverge(artifact, tmp_path / "out", "--program", str(program)) == (0, ())


def test_another_program_is_named_in_one_line(clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that takes other arguments, and one that takes them in other shapes."""
    artifact = tmp_path / "_jit_seeded"
    plant(next(s for s in SEEDS if s.name == "wrong scalar"), clean, artifact)
    build_artifact(artifact, tmp_path / "out")
    words = [str(artifact), "--platform", "a2a3sim", "--build-dir", str(tmp_path / "out")]
    other = Path(__file__).parents[2] / "examples" / "softmax.py"
    larger = tmp_path / "larger.py"
    text = PROGRAM.read_text()
    assert "64" in text
    larger.write_text(text.replace("64", "32"))
    for program, says in ((other, "'softmax' takes x, out, but the artifact takes "), (larger, "has shape [")):
        assert main([*words, "--embedded", str(embedded_module()), "--program", str(program)]) == 2
        (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith("diverge: ")]
        assert line.startswith(f"diverge: {program}: this artifact was built from another program: ")
        assert says in line and line.endswith("pass the program that the artifact was built from as PROGRAM=FILE")


def test_inputs_that_differ_already_are_named(clean: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = tmp_path / "_jit_seeded"
    plant(next(s for s in SEEDS if s.name == "wrong constant"), clean, artifact)
    diverge(artifact, tmp_path / "out")
    assert "inputs of the task: as in a run by the reference alone" in capsys.readouterr().out


def test_documented_table_is_that_of_the_seeds() -> None:
    text = (Path(__file__).parents[2] / "docs" / "dev" / "reference.md").read_text()
    rows = re.findall(r"^\| ([a-z, -]+) \| `([^`]+)` \| (.+) \|$", text, re.M)
    assert [(name, file) for name, file, _ in rows] == [(seed.name, seed.file) for seed in SEEDS]


def test_report_is_written_for_the_page(clean: Path, tmp_path: Path) -> None:
    diverge(clean, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "findings" / "diverge.json").read_text())["tool"] == "diverge"
