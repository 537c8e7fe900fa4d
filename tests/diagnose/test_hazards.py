"""Every planted bug is found at its line, alone, and goes away by the edit that the finding names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pypto_build.diagnose.findings import Finding, read_report
from pypto_build.diagnose.hazards.__main__ import main
from pypto_build.toolchain.python import own_tool
from tests.diagnose.checked import EXAMPLES, apply, build_checked, copy_example
from tests.diagnose.corpus import Bug
from tests.diagnose.corpus.faults import BUGS as FAULTS
from tests.diagnose.corpus.faults import NOTHING
from tests.diagnose.corpus.hazards import BUGS
from tests.diagnose.corpus.traps import BUGS as TRAPPED
from tests.replay.builder import embedded_module
from tests.replay.tiny import Tiny
from tests.rules.project import Project


def hazards(artifact: Path, out: Path, *more: str) -> tuple[int, list[Finding]]:
    """Build and look; the exit status and the findings."""
    build_checked(artifact, out)
    report = out / "found.json"
    words = [str(artifact), "--build-dir", str(out), "--embedded", str(embedded_module()), *more]
    status = main([*words, "--json", str(report)])
    return status, list(read_report(report).findings)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bug(bug: Bug, tmp_path: Path) -> None:
    artifact = copy_example(bug.artifact, tmp_path, bug.edits)
    status, findings = hazards(artifact, tmp_path / "out")
    assert [finding.rule for finding in findings] == [bug.rule]
    finding = findings[0]
    assert status == int(finding.level != "note")
    assert finding.path == bug.file
    assert bug.at in (artifact / bug.file).read_text().splitlines()[finding.line - 1]
    assert bug.says in "\n".join(finding.lines)
    if bug.fixed:
        assert finding.edits
        apply(artifact, finding.edits)
        status, findings = hazards(artifact, tmp_path / "out")
        assert (status, tuple(finding.rule for finding in findings)) == (int(bool(bug.left)), bug.left)


@pytest.mark.parametrize("bug", FAULTS, ids=lambda bug: bug.name)
def test_planted_fault(bug: Bug, tmp_path: Path) -> None:
    """A fault that ends the run is reported at its line, with the exit status of the replay.

    It runs in a process of its own, because this one maps more memory, perhaps far behind a tensor.
    """
    tiny = Tiny(tmp_path, NOTHING)
    ((file, old, new),) = bug.edits
    path = tiny.artifact / file
    assert path.read_text().count(old) == 1
    path.write_text(path.read_text().replace(old, new))
    build_checked(tiny.artifact, tiny.out)
    report = tiny.out / "found.json"
    words = [*own_tool("pypto_build.diagnose.hazards"), str(tiny.artifact), "--build-dir", str(tiny.out)]
    words += ["--embedded", str(embedded_module()), "--json", str(report)]
    words += ["--timeout", "1" if bug.rule == "hazards/hang" else "30"]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    status, (finding,) = run.returncode, read_report(report).findings
    assert (status, finding.rule, finding.path) == (6 if bug.rule == "hazards/hang" else 5, bug.rule, bug.file)
    lines = path.read_text().splitlines()
    assert finding.line == next((number for number, text in enumerate(lines, 1) if bug.at and bug.at in text), 0)
    assert bug.says in finding.message and finding.hint
    assert "Traceback" not in run.stdout + run.stderr


@pytest.mark.parametrize(("trap", "bug"), TRAPPED, ids=lambda value: getattr(value, "name", value))
def test_trap(trap: str, bug: Bug, tmp_path: Path) -> None:
    """It ends at the instruction, with its operands, before any other finding on the run."""
    artifact = copy_example(bug.artifact, tmp_path, bug.edits)
    status, (finding, *others) = hazards(artifact, tmp_path / "out", "--trap", trap)
    assert [other.rule for other in others if not other.rule.startswith("rules/")] == []
    assert (status, finding.rule, finding.path) == (1, bug.rule, bug.file)
    assert bug.at in (artifact / bug.file).read_text().splitlines()[finding.line - 1]
    assert bug.says in finding.message


def test_a_trap_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(copy_example("_jit_softmax", tmp_path)), "--build-dir", str(tmp_path / "out"), "--embedded", "none"]
    assert main([*words, "--trap", "nan,zero"]) == 2
    error = "hazards: TRAP=nan,zero: there is no trap named 'zero'; use one of nan, inf, saturate, denormal"
    assert capsys.readouterr().err.splitlines() == [error]


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.iterdir()))
def test_examples_are_clean(name: str, tmp_path: Path) -> None:
    assert hazards(copy_example(name, tmp_path), tmp_path / "out", "--trap", "nan,inf,saturate,denormal") == (0, [])


def test_vector_instructions_of_a5_need_no_barrier(tmp_path: Path) -> None:
    """Its vector pipe keeps their order; a2a3's does not."""
    edit = ("kernels/aiv/softmax_rows.cpp", "  pipe_barrier(PIPE_V);\n  TROWEXPANDDIV", "  TROWEXPANDDIV")
    artifact = copy_example("_jit_softmax", tmp_path, [edit])
    assert hazards(artifact, tmp_path / "out", "--platform", "a5sim") == (0, [])
    assert [finding.rule for finding in hazards(artifact, tmp_path / "out")[1]] == ["check/no-barrier"]


def test_a_long_instruction_needs_no_barrier_before_the_next_to_the_same_bytes(tmp_path: Path) -> None:
    """It is as far ahead as the pipe is deep: the compiler leaves that barrier out."""
    edit = ("kernels/aiv/softmax_rows.cpp", "  pipe_barrier(PIPE_V);\n  TEXP", "  TEXP")
    assert hazards(copy_example("_jit_softmax", tmp_path, [edit]), tmp_path / "out") == (0, [])


def test_a_kernel_that_ends_early_is_not_told_of_its_flags(tmp_path: Path) -> None:
    """Nothing can be said of a flag whose wait was not come to."""
    edit = ("kernels/aiv/softmax_rows.cpp", "TROWMAX(v15, v7, v13);", "v11.SetAddr(v1 + 99999); TLOAD(v7, v11);")
    assert [
        finding.rule for finding in hazards(copy_example("_jit_softmax", tmp_path, [edit]), tmp_path / "out")[1]
    ] == ["hazards/out-of-bounds"]


def test_arguments_that_plain_code_uses_are_touched(tmp_path: Path) -> None:
    by_hand = "for (int i = 0; i < 128 * 128; ++i) out[i] = a[i] + b[i];"
    edit = ("kernels/aiv/kernel_add.cpp", "\n    kernel_add(a, b, out);", f"\n    {by_hand}")
    assert hazards(copy_example("_jit_vector_dag", tmp_path, [edit]), tmp_path / "out") == (0, [])


def test_a_rule_that_the_text_or_only_the_run_breaks(tmp_path: Path) -> None:
    """It is told where the text says how many columns are valid, and where only the run knows."""
    artifact = copy_example("_jit_softmax", tmp_path)
    kernel = artifact / "kernels/aiv/softmax_rows.cpp"
    lines = kernel.read_text().splitlines(keepends=True)
    scratch = next(number for number, line in enumerate(lines) if "> v13 = " in line)
    lines[scratch] = lines[scratch].replace("64, 256, BLayout::Row", "64, 1, BLayout::Col").replace("v4)", "v5)")
    kernel.write_text("".join(lines))
    for declared in ("const int64_t v4 = 256;", "int64_t v4 = 256;"):
        kernel.write_text(kernel.read_text().replace("const int64_t v4 = 256;", declared))
        status, (first, second) = hazards(artifact, tmp_path / "out")
        assert (status, first.rule, second.rule) == (1, "rules/scratch_size", "rules/scratch_size")
        assert [lines[finding.line - 1].strip() for finding in (first, second)] == [
            "TROWMAX(v15, v7, v13);",
            "TROWSUM(v18, v17, v13);",
        ]
        assert "(elem(src) is f32; valid_cols(src) is 256; size(src) is 4; cols(tmp) is 1;" in first.message
    kernel.write_text(kernel.read_text().replace("int64_t v4 = 256;", "int64_t v4 = 64;"))
    assert [finding.rule for finding in hazards(artifact, tmp_path / "out")[1] if "rules/" in finding.rule] == []


_TWO_OUTPUTS = """#include <cstdint>

#include "tensor.h"

extern "C" void kernel_entry(int64_t* args) {
    ChipTensor* x_tensor = reinterpret_cast<ChipTensor*>(args[0]);
    ChipTensor* y_tensor = reinterpret_cast<ChipTensor*>(args[1]);
    ChipTensor* z_tensor = reinterpret_cast<ChipTensor*>(args[2]);
    float* x = reinterpret_cast<float*>(x_tensor->buffer.addr) + x_tensor->start_offset;
    float* y = reinterpret_cast<float*>(y_tensor->buffer.addr) + y_tensor->start_offset;
    int32_t* z = reinterpret_cast<int32_t*>(z_tensor->buffer.addr) + z_tensor->start_offset;
    for (int i = 0; i < 16; ++i) {
        y[i] = x[i] + 1.0f;
        z[i] = static_cast<int32_t>(x[i]);
    }
}
"""
_ALLOCATED = "TensorCreateInfo z_ci(t_shapes, 1, DataType::INT32); TaskOutputTensors more = alloc_tensors(z_ci);"

PASSED = {
    "one tensor for two outputs": (
        "ChipTensor z = more.get_ref(0);\n        z = ext_y;",
        "task 1 plus_one gets 'y' (float32) for two outputs, arguments 1 and 2; 'z' is int32",
        "hazards/one-for-two",
    ),
    "a tensor of another type": (
        "ChipTensor z = more.get_ref(0);\n        z = t;",
        "task 1 plus_one gets 't' (float32) as argument 2, and 'z' is int32",
        "hazards/argument-dtype",
    ),
}


@pytest.mark.parametrize("name", PASSED)
def test_what_a_task_is_passed(name: str, tmp_path: Path) -> None:
    """It is told at the orchestration's line, with the line that gave the variable its tensor."""
    assigned, message, rule = PASSED[name]
    project = Project(tmp_path)
    (project.artifact / "kernels/aiv/plus_one.cpp").write_text(_TWO_OUTPUTS)
    call = "        params_t1.add_output(ext_y);\n"
    project.edit(
        "orchestration/chain.cpp",
        call,
        f"{call}        {_ALLOCATED}\n        {assigned}\n        params_t1.add_output(z);\n",
    )
    project.write_tensor("out/y", [7.0] * 16)
    _, findings = hazards(project.artifact, tmp_path / "out")
    (finding,) = [finding for finding in findings if finding.rule == rule]
    lines = (project.artifact / "orchestration/chain.cpp").read_text().splitlines()
    assert (finding.message, finding.level) == (message, "error")
    assert lines[finding.line - 1].strip() == "params_t1.add_output(z);"
    assert [lines[one.line - 1] for one in finding.related] == [f"        {assigned.splitlines()[1].strip()}"]
