"""The order in which Pythons and compilers are tried, and what stands for a machine of another processor."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.compilers import COMPILERS
from tests.machines.__main__ import PYTHONS, cells, is_default, pythons
from tests.machines.machine import Machine
from tests.machines.roots import ROOTS


@pytest.mark.parametrize(("names", "tools"), [(PYTHONS, COMPILERS), (COMPILERS, PYTHONS), (PYTHONS[:4], COMPILERS[:6])])
def test_each_is_tried_with_each_and_first_each_once(names: list[str], tools: list[str]) -> None:
    found = cells(names, tools)
    assert sorted(found) == sorted((name, tool) for name in names for tool in tools)
    first = found[: max(len(names), len(tools))]
    assert ({name for name, _ in first}, {tool for _, tool in first}) == (set(names), set(tools))


def test_what_the_tests_run_with_is_no_other_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("g++-12", "clang++-19"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "g++").symlink_to("g++-12")
    monkeypatch.setenv("PATH", str(tmp_path))
    own = f"python3.{sys.version_info.minor}"
    tried = ((own, "clang++-19"), ("python3.99", "g++-12"), ("python3.99", "clang++-19"))
    assert [is_default(*cell) for cell in tried] == [True, True, False]


def test_a_missing_interpreter_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    paths = pythons(tmp_path)
    missing = [line for line in capsys.readouterr().out.splitlines() if line.endswith(": not installed, skipped")]
    assert len(paths) + len(missing) == len(PYTHONS)


def test_a_root_of_another_processor_gets_the_sandbox_of_this_machine(tmp_path: Path) -> None:
    root, work = tmp_path / "root", tmp_path / "work"
    library = root / "lib" / f"{os.uname().machine}-linux-gnu" / "libc.so.6"
    library.parent.mkdir(parents=True)
    work.mkdir()
    machine = Machine(root, work)
    assert "/usr/local/bin/bwrap" in machine._emulate()
    library.touch()
    assert machine._emulate() == []


def test_a_root_has_every_compiler_of_the_matrix() -> None:
    packages = ROOTS["matrix"][2].split(",")
    assert {name.replace("clang++", "clang") for name in COMPILERS} <= set(packages)
