"""Lint: each planted bug is the one finding, at its line; the examples have none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pypto_build.diagnose.findings import Finding, Report, as_sarif, read_report
from pypto_build.diagnose.lint.__main__ import lint, main
from tests.diagnose.corpus import Bug
from tests.diagnose.corpus.lint import BUGS

_EXAMPLES = Path(__file__).parents[2] / "examples" / "artifacts"


def planted(bug: Bug, directory: Path) -> Path:
    """A copy of the bug's artifact with the bug in it; an edit of nothing replaces the whole file."""
    root = directory / bug.artifact
    shutil.copytree(_EXAMPLES / bug.artifact, root)
    for name, old, new in bug.edits:
        text = (root / name).read_text()
        assert old in text, f"{name} has no {old!r}"
        (root / name).write_text(text.replace(old, new, 1) if old else new)
    return root


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bug(bug: Bug, tmp_path: Path) -> None:
    root = planted(bug, tmp_path)
    (finding,) = lint(root, "a2a3sim")
    assert (finding.rule, finding.path) == (bug.rule, bug.file)
    assert bug.says in finding.message
    lines = (root / bug.file).read_text().splitlines()
    expected = next(number for number, text in enumerate(lines, 1) if bug.at in text) if bug.at else 0
    assert finding.line == expected
    assert finding.hint and finding.level in ("error", "warning")


@pytest.mark.parametrize("path", sorted(_EXAMPLES.iterdir()), ids=lambda path: path.name)
def test_examples_are_clean(path: Path) -> None:
    assert lint(path, "a2a3sim") == []


def test_a_free_that_only_the_module_has(tmp_path: Path) -> None:
    """Without the assembler's output the module says what the body lacks."""
    bug = next(bug for bug in BUGS if bug.name == "slot of a pipe that is not freed")
    root = planted(bug, tmp_path)
    (root / "ptoas/gemm_silu.cpp").unlink()
    (finding,) = lint(root, "a2a3sim")
    assert (finding.rule, finding.path) == ("lint/not-spliced", "ptoas/gemm_silu.pto")
    assert "1 pto.tfree_from_* here, 0 TFREE in kernels/aiv/gemm_silu_aiv.cpp" in finding.message
    assert "pto.tfree_from_aic" in (root / finding.path).read_text().splitlines()[finding.line - 1]


def test_two_kernels_with_the_numbers_of_each_other(tmp_path: Path) -> None:
    """One finding for both signatures, whose edits put the numbers back."""
    root = planted(Bug("", "_jit_vector_dag", (), "", "", "", ""), tmp_path)
    manifest = root / "kernel_config.py"
    right = manifest.read_text()
    swapped = right.replace('"func_id": 1', '"func_id": X').replace('"func_id": 2', '"func_id": 1')
    manifest.write_text(swapped.replace('"func_id": X', '"func_id": 2'))
    findings = [finding for finding in lint(root, "a2a3sim") if finding.path == manifest.name]
    assert [finding.rule for finding in findings] == ["lint/exchanged-numbers"]
    assert findings[0].message.startswith("kernels 'kernel_mul' and 'kernel_shift' have swapped func_ids: ")
    assert findings[0].line == min(edit.line for edit in findings[0].edits)
    lines = manifest.read_text().splitlines(keepends=True)
    for edit in findings[0].edits:
        lines[edit.line - 1] = lines[edit.line - 1].replace(edit.old, edit.new, 1)
    assert "".join(lines) == right


def test_an_artifact_of_modules_only(tmp_path: Path) -> None:
    """Compiled with SKIP_PTOAS=1: its modules are checked, and what is not there yet is named."""
    module = tmp_path / "_jit_x" / "kernels" / "aiv" / "kernel_mul.pto"
    module.parent.mkdir(parents=True)
    text = (_EXAMPLES / "_jit_vector_dag/ptoas/kernel_mul.pto").read_text()
    module.write_text(text)
    (note,) = lint(tmp_path / "_jit_x", "a2a3sim")
    assert (note.rule, note.level, note.path) == ("lint/incomplete", "note", ".")
    module = module.rename(module.with_name("other.pto"))
    module.write_text(text.replace("pto.tmul ", "pto.tmull ", 1))
    finding, note = lint(tmp_path / "_jit_x", "a2a3sim")
    assert (finding.rule, finding.path) == ("lint/pto", "kernels/aiv/other.pto")
    assert "did you mean pto.tmul?" in finding.message
    assert text.splitlines()[finding.line - 1].lstrip().startswith("pto.tmul ")
    assert main([str(tmp_path / "_jit_x")]) == 1


def test_bodies_for_simulators_are_none_for_hardware() -> None:
    (finding,) = lint(_EXAMPLES / "_jit_spmd_scale", "a2a3")
    assert (finding.rule, finding.path, finding.line) == ("lint/no-synchronization", "kernels/aiv/scale_rows.cpp", 48)


def test_findings_go_to_people_and_to_editors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = planted(BUGS[0], tmp_path)
    files = {name: tmp_path / f"f.{name}" for name in ("json", "sarif")}
    assert main([str(root), "--json", str(files["json"]), "--sarif", str(files["sarif"])]) == 1
    line = (root / "kernel_config.py").read_text().splitlines().index(
        next(text for text in (root / "kernel_config.py").read_text().splitlines() if "kernel_mul" in text)
    ) + 1
    assert capsys.readouterr().out.splitlines() == [
        f"kernel_config.py:{line}: error: kernel 'kernel_mul': argument 2 is INOUT in the signature, but "
        "add_output(g) at orchestration/vector_dag.cpp:73 [lint/signature-direction]",
        "    do: write _D.OUT in the signature, or add_inout in the orchestration",
        "[lint] _jit_vector_dag: 1 error",
    ]
    report = read_report(files["json"])
    assert (report.tool, report.findings[0].rule) == ("lint", "lint/signature-direction")
    assert as_sarif(report, root) == files["sarif"].read_bytes()
    (result,) = json.loads(files["sarif"].read_text())["runs"][0]["results"]
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "kernel_config.py", "uriBaseId": "ARTIFACT"}
    assert location["region"]["startLine"] == line


def test_paths_are_addresses_in_sarif(tmp_path: Path) -> None:
    """An artifact's name may have letters that mean something else in an address."""
    finding = Finding("lint/x", "text", '_jit_<a> %41#?"/k ü.cpp', 3)
    (result,) = json.loads(as_sarif(Report("lint", "x", (finding,)), tmp_path))["runs"][0]["results"]
    address = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert address == "_jit_%3Ca%3E%20%2541%23%3F%22/k%20%C3%BC.cpp"


def test_no_artifact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err == f"lint: {tmp_path / 'x'}: no such directory; name the directory of an artifact\n"
