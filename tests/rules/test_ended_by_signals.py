"""SIGTERM and SIGHUP end a run that waits for a user's pipe, with one line, and nothing of it is left."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rules.project import Project, open_when_read

_PATIENCE_S = 120


def _header(project: Project, pipe: Path) -> list[str]:
    project.write_kernel("twice", "2.0f * x[i]", f'#include "{pipe}"')
    return []


def _compiler(project: Project, pipe: Path) -> list[str]:
    compiler = project.write("g++-that-waits", f'#!/bin/sh\ncat {pipe} > /dev/null\nexec g++ "$@"\n')
    compiler.chmod(0o755)
    return [f"CXX={compiler}"]


@pytest.mark.parametrize("waits", [_header, _compiler])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_waits_for_a_pipe(
    stocked: Project, tmp_path: Path, waits: Callable[[Project, Path], list[str]], number: signal.Signals
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    words = waits(stocked, pipe)
    before = signal.signal(number, signal.SIG_DFL)  # under nohup, SIGHUP is ignored, and so it would be in the run
    run = stocked.start("SCons", "-Q", "replay", f"JIT={stocked.artifact.name}", *words)
    signal.signal(number, before)
    writer = open_when_read(pipe)
    run.send_signal(number)
    printed = run.communicate(timeout=_PATIENCE_S)[0]
    assert run.returncode == 128 + number
    assert printed.splitlines()[-1:] == [f"pypto-build: ended by {number.name}"]
    waiting = select.poll()
    waiting.register(writer, 0)
    assert waiting.poll(_PATIENCE_S * 1000) == [(writer, select.POLLERR)], "a process still reads the pipe"
    os.close(writer)
