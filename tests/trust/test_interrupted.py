"""Runs that are killed (1), and edits while something runs (2): no wrong kernel passes."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trust.commands import wait_for
from tests.trust.compilers import Holding
from tests.trust.judged import HEADER, SCALED, fails, passes
from tests.trust.space import KERNELS, PASS, Space


def test_1_killed_at_the_run(chain: Space) -> None:
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)
    chain.kernel("twice", "2.0f * in[i]")
    done = chain.run("replay", see=lambda line: line.startswith("[replay] run"))
    assert done.status == -signal.SIGKILL and not done.left, done
    chain.kernel("twice", "3.0f * in[i]", before="// a comment")
    fails(chain)
    fails(chain, "FORCE=1")


def test_1_killed_at_the_run_first(chain: Space) -> None:
    done = chain.run("replay", see=lambda line: line.startswith("[replay] run"))
    assert done.status == -signal.SIGKILL and not done.left, done
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)
    chain.kernel("twice", "2.0f * in[i]")
    passes(chain)


def test_1_killed_at_the_link(chain: Space) -> None:
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)
    chain.kernel("twice", "2.0f * in[i]")
    done = chain.run("replay", see=lambda line: line.startswith("[cpp->.so] link"))
    assert done.status == -signal.SIGKILL and not done.left, done
    chain.kernel("twice", "3.0f * in[i]", before="// a comment")
    fails(chain)
    fails(chain, "FORCE=1")


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("file", ["kernel", "header"])
def test_2_edited_while_it_compiles_then_undone(chain: Space, tmp_path: Path, file: str, nth: int) -> None:
    change = _kernel_that_changes(chain, file)
    change("3.0f")
    holding = Holding.write(chain, tmp_path / "holding", "twice", nth)
    command = chain.start(f"CXX={holding.program}")
    if not holding.started(command):
        command.end()
        pytest.skip(f"the compiler is not called {nth} times")
    change("2.0f")
    holding.let_it_read()
    change("3.0f")
    holding.let_it_end()
    done = command.end()
    assert done.status != PASS, f"what was compiled is not what is there\n{done}"
    fails(chain, f"CXX={holding.program}")
    change("2.0f")
    passes(chain, f"CXX={holding.program}")


@pytest.mark.parametrize("file", ["kernel", "header"])
def test_2_edited_while_it_compiles_then_undone_with_its_time(chain: Space, tmp_path: Path, file: str) -> None:
    change = _kernel_that_changes(chain, file)
    path = chain.artifact / (f"{KERNELS}/twice.cpp" if file == "kernel" else HEADER)
    change("3.0f")
    stamp = path.stat()
    holding = Holding.write(chain, tmp_path / "holding", "twice")
    command = chain.start(f"CXX={holding.program}")
    assert holding.started(command)
    change("2.0f")
    holding.let_it_read()
    change("3.0f")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    holding.let_it_end()
    done = command.end()
    assert done.status != PASS, f"what was compiled is not what is there\n{done}"
    fails(chain, f"CXX={holding.program}")


def test_2_edited_while_it_compiles_and_not_undone(chain: Space, tmp_path: Path) -> None:
    chain.kernel("twice", "2.0f * in[i]")
    holding = Holding.write(chain, tmp_path / "holding", "twice")
    command = chain.start(f"CXX={holding.program}")
    assert holding.started(command)
    chain.kernel("twice", "3.0f * in[i]")
    holding.let_it_read()
    holding.let_it_end()
    command.end()
    fails(chain, f"CXX={holding.program}")
    chain.kernel("twice", "2.0f * in[i]")
    passes(chain, f"CXX={holding.program}")


def test_2_edited_while_it_compiles_then_undone_under_watch(chain: Space, tmp_path: Path) -> None:
    chain.kernel("twice", "3.0f * in[i]")
    holding = Holding.write(chain, tmp_path / "holding", "twice")
    command = chain.start_scons("replay", f"JIT={chain.name}", f"CXX={holding.program}", "WATCH=1")
    try:
        assert holding.started(command)
        chain.kernel("twice", "2.0f * in[i]")
        holding.let_it_read()
        chain.kernel("twice", "3.0f * in[i]")
        holding.let_it_end()
        assert wait_for(lambda: "waiting for a change" in command.output), command.output
        _wait_until_quiet(lambda: command.output)
    finally:
        command.send(signal.SIGINT)
        done = command.end(30)
    verdicts = re.findall(r"^\[RUN\] (PASS|FAIL)", done.output, re.MULTILINE)
    assert verdicts and verdicts[-1] == "FAIL", done
    fails(chain, f"CXX={holding.program}")


@pytest.mark.parametrize("file", ["in/x.pt", "out/y.pt"])
def test_2_data_edited_while_it_runs_then_undone(chain: Space, tmp_path: Path, file: str) -> None:
    right = (chain.artifact / "data" / file).read_bytes()
    chain.tensor(file, [7.0] * 16)
    wrong = (chain.artifact / "data" / file).read_bytes()
    before = '#include <unistd.h>\nstatic void note(const char* p) { if (FILE* f = fopen(p, "w")) fclose(f); }\n'
    wait = f'note("{tmp_path}/started"); while (access("{tmp_path}/go", F_OK)) usleep(10000);'
    chain.kernel("twice", "2.0f * in[i]", f"#include <cstdio>\n{before}", wait)
    command = chain.start("TIMEOUT=100")
    assert wait_for(lambda: (tmp_path / "started").exists() or not command.running), command.output
    chain.write_in(f"data/{file}", right)
    (tmp_path / "go").touch()
    command.end()
    chain.write_in(f"data/{file}", wrong)
    fails(chain, "TIMEOUT=100")


def _kernel_that_changes(space: Space, file: str) -> Callable[[str], object]:
    """Something that sets the kernel's factor, in the kernel or in a header of its."""
    if file == "kernel":
        return lambda factor: space.kernel("twice", f"{factor} * in[i]")
    space.kernel("twice", SCALED, '#include "scale.h"')
    return lambda factor: space.write_in(HEADER, f"#define SCALE {factor}\n")


def _wait_until_quiet(read: Callable[[], str], quiet_s: float = 4.0) -> None:
    """Wait until nothing more is printed."""
    seen, since = read(), time.monotonic()
    while time.monotonic() - since < quiet_s:
        time.sleep(0.05)
        if read() != seen:
            seen, since = read(), time.monotonic()
