"""A crash is one at a line, though binaries have no line numbers: the compile commands of the build are used again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.rules.project import Project


def _line(path: Path, text: str) -> int:
    return next(number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def _error(project: Project) -> dict[str, Any]:
    error = project.verdict()["error"]
    assert isinstance(error, dict)
    return error


def test_crashes_of_a_kernel_and_of_the_orchestration(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.edit("kernels/aiv/twice.cpp", "2.0f * in[i]", "*(volatile float*)(16 + 8 * (long)i)")
    assert project.replay().status
    error = _error(project)
    position = f"kernels/aiv/twice.cpp:{_line(project.artifact / 'kernels/aiv/twice.cpp', '(volatile float*)')}"
    text = f"kernel 'twice' crashed at build_output/_jit_chain/{position}: SIGSEGV (Segmentation fault) at address 0x10"
    assert error["message"].startswith(text)
    assert error["detail"][-1].endswith(f" ({project.artifact}/{position})")

    entry = next((project.artifact / "orchestration").glob("*.cpp"))
    text = entry.read_text()
    entry.write_text(text.replace("    PTO2_SCOPE() {", "    *(volatile int*)16 = 1;\n    PTO2_SCOPE() {", 1))
    assert project.replay("CHECK=1").status
    message = _error(project)["message"]
    assert f"{entry.name}:{_line(entry, '(volatile int*)16')}: SIGSEGV (Segmentation fault) at address 0x10" in message
    assert message.startswith("the orchestration crashed at ")


#: What an orchestration does wrong, and the message after its file and line.
CALLS = {
    "view": (
        "uint32_t far[1] = {9}, eight[1] = {8}; (void)t.view(eight, far);",
        "after 0 tasks: view of 't' [16] reaches outside it: offset 9 + 8 of 16 in dimension 0; clamp its shape to "
        "what is left after the offset",
    ),
    "reshape": (
        "uint32_t half[2] = {2, 4}; const ChipTensor *p = &t; (void)p->reshape(half, 2);",
        "after 0 tasks: reshape of 'p' [16] to [2, 4] changes the number of elements: 16 to 8",
    ),
    "transpose": (
        "(void)t.transpose(0, 1);",
        "after 0 tasks: transpose of 't' [16] names dimension 1; the tensor has 1",
    ),
    "get_ref": (
        "(void)alloc_0.get_ref(2);",
        "after 0 tasks: get_ref(2) is out of range: the runtime allocated 1 tensor in that call",
    ),
    "index": (
        "uint32_t index[1] = {16}; (void)get_tensor_data<float>(ext_x, 1, index);",
        "index 16 is outside dimension 0 of size 16",
    ),
    "submission": (
        "CoreTaskArgs p; p.launch_spec.set_block_num(0); rt_submit_dummy_task(p);",
        "task 0 asks for 0 SPMD blocks",
    ),
    "entry": (
        "(void)orch_args.scalar(0);",
        "after 0 tasks: orch_args.scalar(0) is out of range: the entry has 0 scalars",
    ),
    "reported": ('rt_report_fatal(3, "%d rows", 5);', "5 rows"),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose orchestration is edited by one test after another."""
    return Project(tmp_path_factory.mktemp("calls"))


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_an_orchestration(project: Project, name: str) -> None:
    """The fault is at the line of the call, with the tensor and its sizes."""
    call, message = CALLS[name]
    source = project.artifact / "orchestration" / "chain.cpp"
    before = source.read_text()
    try:
        source.write_text(before.replace("        // Task 0: twice\n", f"        {call}\n        // Task 0: twice\n"))
        assert project.replay().status
        error = _error(project)
        line = _line(source, call)
        assert error["message"] == f"build_output/_jit_chain/orchestration/chain.cpp:{line}: {message}"
        assert error["detail"][0] == f"{line} | {call}"
        run = project.scons("hazards", "JIT=build_output/_jit_chain")
        assert f"orchestration/chain.cpp:{line}: error: {message} [hazards/fault]" in run.output
    finally:
        source.write_text(before)
