"""Compiler launchers: they run, what is theirs is no input, what they hide is not believed, and no key has them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pypto_build.facts.options import LAUNCHERS
from tests.rules.project import Project

KERNEL = "kernels/aiv/twice"
# Like ccache: it reads and writes files of its own, in a place that it tells.
_CACHE = """#!/bin/sh
if [ "$1" = --get-config ]; then echo "$CCACHE_DIR"; exit; fi
cat "$CCACHE_DIR/state" >/dev/null 2>&1
date +%s%N >"$CCACHE_DIR/state"
echo "$*" >>"$CCACHE_DIR/log"
exec "$@"
"""
# Like a client of a compile server: nothing of the compilation happens where it could be seen.
_CLIENT = """#!/bin/sh
env -u LD_PRELOAD -u PYPTO_WITNESS "$@"
"""


@pytest.fixture
def launched(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Project]:
    """A project with a launcher called ccache on PATH; the line of each compilation is in its log."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "own").mkdir()
    _install(tmp_path, "ccache", _CACHE)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path / "own"))
    yield project


def _install(tmp_path: Path, name: str, script: str) -> None:
    path = tmp_path / "bin" / name
    path.write_text(script)
    path.chmod(0o755)


def test_compilations_go_through_it_and_links_do_not(launched: Project, tmp_path: Path) -> None:
    run = launched.replay("LAUNCHER=ccache")
    assert run.status == 0, run.output
    lines = (tmp_path / "own" / "log").read_text().splitlines()
    assert sorted(Path(word).name for line in lines for word in line.split() if word.endswith(".cpp")) == [
        "chain.cpp",
        "plus_one.cpp",
        "twice.cpp",
    ]
    assert all(" -c " in f"{line} " for line in lines)


def test_switching_it_rebuilds_nothing(launched: Project, tmp_path: Path) -> None:
    assert launched.replay("LAUNCHER=ccache").status == 0
    run = launched.replay()
    assert (run.status, run.actions) == (0, [])
    launched.edit(f"{KERNEL}.cpp", "2.0f", "3.0f")
    assert f"compile {KERNEL}.cpp" in launched.replay().actions
    assert launched.replay("LAUNCHER=ccache").actions == ["run _jit_chain"]  # a failed replay always runs


def test_a_header_is_seen_through_it(launched: Project) -> None:
    assert launched.replay("LAUNCHER=ccache").status == 0
    header = launched.artifact / "kernels" / "aiv" / "factor.h"
    header.write_text("#define FACTOR 2.0f\n")
    launched.edit(f"{KERNEL}.cpp", '#include "tensor.h"', '#include "tensor.h"\n#include "factor.h"')
    launched.edit(f"{KERNEL}.cpp", "2.0f", "FACTOR")
    assert launched.replay("LAUNCHER=ccache").status == 0
    header.write_text("#define FACTOR 3.0f\n")
    run = launched.replay("LAUNCHER=ccache")
    assert run.status == 2 and f"compile {KERNEL}.cpp" in run.actions, run.output


def test_what_a_launcher_hides_is_made_anew(launched: Project, tmp_path: Path) -> None:
    _install(tmp_path, "sccache", _CLIENT)
    for _ in range(2):
        run = launched.replay("LAUNCHER=sccache")
        assert run.status == 0, run.output
        assert f"compile {KERNEL}.cpp" in run.actions
        assert "/g++ cannot be watched, so it is made again every time" in run.output


@pytest.mark.parametrize("name", ["ccache", "sccache"])
def test_real_one(name: str, project: Project, tmp_path: Path) -> None:
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    env = {"CCACHE_DIR": str(tmp_path / "cc"), "SCCACHE_DIR": str(tmp_path / "sc"), "SCCACHE_SERVER_PORT": _free_port()}
    words = ("replay", f"JIT={project.artifact.name}", f"LAUNCHER={name}")
    try:
        run = project.scons(*words, env=env)
        assert run.status == 0, run.output
        project.edit(f"{KERNEL}.cpp", "2.0f", "3.0f")
        assert project.scons(*words, env=env).status == 2
        project.edit(f"{KERNEL}.cpp", "3.0f", "2.0f")
        shutil.rmtree(project.out)
        run = project.scons(*words, "STORE_SIZE=0", env=env)
        assert run.status == 0 and f"compile {KERNEL}.cpp" in run.actions
    finally:
        if name == "sccache":
            subprocess.run([name, "--stop-server"], env={**os.environ, **env}, capture_output=True, check=False)


def _free_port() -> str:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return str(listening.getsockname()[1])


def test_every_name_has_a_place(project: Project) -> None:
    for name in LAUNCHERS:
        if not shutil.which(name):
            run = project.replay(f"LAUNCHER={name}")
            line = f"LAUNCHER={name}: not found on PATH; install {name} or leave LAUNCHER out"
            assert run.status == 2 and line in run.output
