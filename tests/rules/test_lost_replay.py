"""A replay whose process is ended from outside, as the system does for memory: it has a verdict all the same."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.rules.project import Project

_LONGEST_S = 60
_WAITS = '    FILE* there = fopen("{mark}", "w"); fclose(there); sleep(30);\n    for (uint32_t i = 0'


def _replays_of(project: Project) -> list[int]:
    """Return the processes of replays in the workspace."""
    numbers = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"pypto_build.replay" in words and str(project.artifact).encode() in words:
            numbers.append(int(process.name))
    return numbers


def test_a_replay_that_is_killed_has_a_verdict(stocked: Project, tmp_path: Path) -> None:
    assert stocked.replay().status == 0
    mark = tmp_path / "mark"
    stocked.edit("kernels/aiv/twice.cpp", "    for (uint32_t i = 0", _WAITS.format(mark=mark))
    stocked.edit(
        "kernels/aiv/twice.cpp", "#include <cstdint>", "#include <cstdint>\n#include <cstdio>\n#include <unistd.h>"
    )
    process = stocked.start("pypto_build.cli", "replay", "_jit_chain")
    end = time.monotonic() + _LONGEST_S
    while not mark.exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    for number in _replays_of(stocked):
        os.kill(number, signal.SIGKILL)
    output = process.communicate(timeout=_LONGEST_S)[0]
    assert process.returncode == 5, output
    text = "the replay's process ended by signal 9 before it wrote a verdict"
    assert f"[RUN] FAIL: runtime_error: {text}; run it again" in output
    verdict = stocked.verdict()
    assert (verdict["status"], verdict["error"]["message"]) == ("runtime_error", text)  # type: ignore[index]
    assert "Traceback" not in output
