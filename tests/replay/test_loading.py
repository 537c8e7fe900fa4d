"""Libraries that were loaded ahead are used only if their files are unchanged when the run's turn comes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from pypto_build.artifact.interface import read_interface
from pypto_build.replay.cli import request_from
from pypto_build.replay.embedded import job_of
from pypto_build.replay.loading import Files, Libraries, LoadingNote, load_embedded
from tests.replay.builder import embedded_module
from tests.replay.test_prestart import Pair


@pytest.fixture
def module(runtime: Path) -> ModuleType:
    return load_embedded(runtime)


def _replace(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_text("other")
    other.replace(path)


@pytest.mark.parametrize(
    "change, others",
    [
        (lambda path: path.write_text("other"), [False]),
        (lambda path: os.utime(path), [False]),
        (_replace, [True]),
        (lambda path: path.unlink(), [True]),
        (lambda path: path.read_text(), []),
    ],
)
def test_what_the_system_says_of_files(
    module: ModuleType, tmp_path: Path, change: Callable[[Path], object], others: list[bool]
) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path in paths:
        path.write_text("one")
    files = Files(module, map(str, paths))
    time.sleep(0.01)
    change(paths[1])
    assert list(files.changed()) == [(str(paths[1]), other) for other in others]
    assert files.are_unchanged() == (not others) and files.are_whole() == all(others)


def test_their_ages(module: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    status = path.stat()
    newest = max(status.st_mtime_ns, status.st_ctime_ns)
    files = Files(module, [str(path), str(path)])
    assert files.are_older_than(newest + 1) and not files.are_older_than(newest)
    assert not Files(module, [str(path), str(tmp_path / "none")]).are_older_than(newest + 1)
    only = files.only([False, True])
    assert only.paths == [str(path)] and only.are_unchanged()


def _words(pair: Pair) -> list[str]:
    words = [str(pair.artifact), "--platform", "a2a3sim", "--build-dir", str(pair.out)]
    return [*words, "--embedded", str(embedded_module())]


def test_libraries_of_another_job_are_not_taken(tmp_path: Path) -> None:
    pair = Pair(tmp_path).link()
    words = _words(pair)
    interface = read_interface(pair.out / "interface.json")
    module = load_embedded(embedded_module())
    libraries = Libraries(module, job_of(request_from(words), interface))
    assert {pair.library("more"), pair.library("step")} <= set(map(Path, libraries.load_ahead().paths))
    same, other = request_from(words), request_from([*words, "--threads", "1"])
    assert libraries.is_for(module, job_of(same, interface))
    assert not libraries.is_for(module, job_of(other, interface))
    note = LoadingNote(memoryview(bytearray(1024)))
    pair.compile("newer", pair.kernel("y[i] = 3 * y[i];")).replace(pair.library("more"))
    runtime = libraries.runtime(job_of(same, interface), note)
    assert runtime.renew_kernels() == [1] and note.text == ""  # it is not one that was loaded ahead


def test_a_file_that_is_replaced_meanwhile_is_not_loaded_before_its_turn(tmp_path: Path) -> None:
    """Loading could run its code, and the loader would reuse that library for later files of the same name."""
    pair = Pair(tmp_path).link()
    newer = pair.compile("newer", pair.kernel("y[i] = 3 * y[i];"))
    module = load_embedded(embedded_module())

    class Meanwhile:
        def __getattr__(self, name: str) -> object:
            return getattr(module, name)

        def load_ahead(self, paths: list[str]) -> list[bool]:
            loaded: list[bool] = module.load_ahead(paths)
            newer.replace(pair.library("more"))
            return loaded

    libraries = Libraries(Meanwhile(), job_of(request_from(_words(pair)), read_interface(pair.out / "interface.json")))
    libraries.load_ahead()
    lines = Path("/proc/self/maps").read_text().splitlines()
    mapped = {line.endswith("(deleted)") for line in lines if str(pair.library("more")) in line}
    assert mapped == {True}
