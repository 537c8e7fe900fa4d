"""Machines on which tools cannot be watched: the reason, and what is kept all the same."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from pypto_build.proof.store import Store
from pypto_build.proof.witness import library, obstacle
from pypto_build.toolchain.host import find_compiler
from tests.compilers import COMPILERS
from tests.proof.test_output_dir import Rig


def _program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_compiler_that_refuses_the_library_is_quoted(tmp_path: Path) -> None:
    errors = 'echo "witness.cpp:3:9: note: here"; echo "witness.cpp:4:1: error: no headers"; exit 1'
    compiler = _program(tmp_path / "cxx", f"({errors}) >&2; exit 1")
    assert library(compiler, tmp_path, os.environ) is None
    reason = "does not compile the library that watches: witness.cpp:4:1: error: no headers"
    assert obstacle(compiler, os.environ) == f"{compiler} {reason}"


def test_a_compiler_that_cannot_be_run(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert obstacle(missing, os.environ) == f"{missing} cannot be run (No such file or directory)"


def test_a_compiler_that_is_not_seen_is_no_use(tmp_path: Path) -> None:
    """As one that is linked statically: it loads nothing before it starts."""
    real = find_compiler().path
    compiler = _program(tmp_path / "cxx", f'unset LD_PRELOAD; exec {real} "$@"')
    assert library(compiler, tmp_path / "witness", os.environ) is None
    reason = "loads no library before it starts, as programs that are linked statically"
    assert obstacle(compiler, os.environ) == f"{real} {reason}"


@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_supported_compiler_builds_it_and_is_seen(compiler: str, tmp_path: Path) -> None:
    path = shutil.which(compiler)
    if path is None:
        pytest.skip(f"{compiler} is not installed")
    assert library(path, tmp_path, os.environ) is not None


def test_only_what_its_declared_inputs_stand_for_is_kept(tmp_path: Path) -> None:
    rig = Rig(tmp_path, None, Store(tmp_path / "store"))
    action = rig.action()
    assert [rig.run(action), rig.run(action)] == ["built", "built"]
    assumed = replace(action, assumed=True, shared=False)
    assert [rig.run(assumed), rig.run(assumed)] == ["built", "kept"]
    rig.write("source", "two ")
    assert [rig.run(assumed), rig.run(assumed)] == ["built", "kept"]
    assert not list(rig.store.entries())


def test_a_run_makes_nothing_twice(tmp_path: Path) -> None:
    """A replay looks at its binaries once more before it uses them."""
    rig = Rig(tmp_path, None, Store(tmp_path / "store"))
    results, action = rig.output_dir(), rig.action()

    def how() -> str:
        return results.perform(action, rig.spawn, tuple).how

    assert [how(), how()] == ["built", "kept"]
    rig.write("source", "two ")
    assert [how(), how()] == ["built", "kept"]
    (rig.out / "built").write_text("damaged")
    assert [how(), how(), rig.built] == ["built", "kept", "two h1 "]
    results.rest()  # other code has written files, which may have been read
    assert [how(), how()] == ["built", "kept"]
    results.close()
