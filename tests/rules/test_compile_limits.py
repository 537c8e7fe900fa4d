"""A compilation ends: a source may include what has no end, and the error names that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.rules.machinery.actions import run_limited
from tests.rules.project import Project
from tests.trust.commands import goes_on, wait_for

_KERNEL = "kernels/aiv/twice.cpp"
_SMALL = 700 << 20


@pytest.mark.parametrize("file", [_KERNEL, "orchestration/chain.cpp"])
def test_a_source_that_includes_a_pipe(stocked: Project, file: str) -> None:
    pipe = stocked.root / "pipe.h"
    os.mkfifo(pipe)
    with (stocked.artifact / file).open("a") as source:
        source.write(f'#include "{pipe}"\n')
    run = stocked.quiet("replay", "JIT=_jit_chain", "COMPILE_TIMEOUT=5")
    assert run.status != 0
    assert (
        "error: the compiler has not ended in 5 s (raise COMPILE_TIMEOUT= if it needs longer); "
        f"it reads {pipe}, which is not a regular file\n" in run.output
    )
    assert stocked.verdict()["status"] == "build_error"


def test_a_source_that_includes_an_endless_device(stocked: Project) -> None:
    with (stocked.artifact / _KERNEL).open("a") as source:
        source.write('#include "/dev/zero"\n')
    limited = (
        f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_DATA, ({_SMALL}, {_SMALL})); "
        "os.execv(sys.executable, [sys.executable, '-m', 'SCons', '-Q', 'replay', 'JIT=_jit_chain'])"
    )
    run = subprocess.run(
        [sys.executable, "-c", limited],
        cwd=stocked.root,
        env=stocked.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode != 0
    (line,) = [line for line in run.stderr.splitlines() if line.startswith("error: ")]
    assert "may have met its limit" in line
    assert line.endswith("; it reads /dev/zero, which is not a regular file")


def test_a_compiler_with_children_is_ended_whole(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    status, text = run_limited(["sh", "-c", f"sleep 1000 & echo $! > {mark}; wait"], dict(os.environ), 1.0)
    assert status != 0 and text.startswith("error: the compiler has not ended in 1 s")
    assert wait_for(lambda: not goes_on(int(mark.read_text())), 10)


def test_a_compiler_has_limits_and_no_input() -> None:
    code = "import resource, sys; print(resource.getrlimit(resource.RLIMIT_FSIZE)[0], repr(sys.stdin.read()))"
    status, text = run_limited([sys.executable, "-c", f"import time; time.sleep(1); {code}"], dict(os.environ), 60.0)
    limit, stdin = text.split()
    assert status == 0 and int(limit) >= 4 << 30 and stdin == "''"
