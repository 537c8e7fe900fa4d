"""A crash is one at a line, though binaries have no line numbers: the compile commands of the build are used again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    place = f"kernels/aiv/twice.cpp:{_line(project.artifact / 'kernels/aiv/twice.cpp', '(volatile float*)')}"
    text = f"kernel 'twice' crashed at build_output/_jit_chain/{place}: SIGSEGV (Segmentation fault) at address 0x10"
    assert error["message"].startswith(text)
    assert error["detail"][-1].endswith(f" ({project.artifact}/{place})")

    entry = next((project.artifact / "orchestration").glob("*.cpp"))
    text = entry.read_text()
    entry.write_text(text.replace("    PTO2_SCOPE() {", "    *(volatile int*)16 = 1;\n    PTO2_SCOPE() {", 1))
    assert project.replay("CHECK=1").status
    message = _error(project)["message"]
    assert f"{entry.name}:{_line(entry, '(volatile int*)16')}: SIGSEGV (Segmentation fault) at address 0x10" in message
    assert message.startswith("the orchestration crashed at ")
