"""The metadata of many files in one call equal those of single calls."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pypto_build.proof import looking
from pypto_build.proof.looking import NOTHING, SOURCE, Identity, Looker, Paths, differing, identity, pack, unpack
from pypto_build.proof.witness import library
from pypto_build.toolchain.host import find_compiler


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built_library = library(find_compiler().path, tmp_path_factory.mktemp("looking"), os.environ, SOURCE)
    assert built_library is not None
    return built_library


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """Paths of every kind, neighbours and not."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    for name in ("one/a", "one/b", "two/c", "one/\udcff\n"):
        (tmp_path / name).write_text(name, errors="surrogateescape")
    (tmp_path / "link").symlink_to("one/a")
    (tmp_path / "dangling").symlink_to("none")
    (tmp_path / "to_directory").symlink_to("one")
    os.mkfifo(tmp_path / "pipe")
    names = ["one/a", "one/b", "two/c", "one/a", "one", "one/", "link", "dangling", "to_directory/b", "to_directory/"]
    names += ["none", "none/a", "one/a/b", "pipe", "one/../two/c", "one//a", "one/\udcff\n", "x" * 300, "y/" * 3000]
    return [*(f"{tmp_path}/{name}" for name in names), "/", "", ".", os.path.basename(os.getcwd()), "../none", "/none"]


def _alone(path: str, follow: bool) -> Identity:
    try:
        return identity(os.stat(path) if follow else os.lstat(path))
    except OSError:
        return NOTHING


@pytest.mark.parametrize("follow", [False, True])
def test_each_is_told_as_if_alone(built: Path, paths: list[str], follow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "_MANY", 0)
    batch = Paths(paths, follow)
    looks = Looker(lambda: built).look(batch)
    assert looks == Looker().look(batch)
    assert list(unpack(looks)) == [_alone(path, follow) for path in paths]


@pytest.mark.parametrize("broken", [lambda path: None, lambda path: path, lambda path: path.parent / "none"])
def test_without_the_library_it_is_the_same(
    tmp_path: Path, paths: list[str], broken: Callable[[Path], Path | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "_MANY", 0)
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(b"\x7fELF")
    assert Looker(lambda: broken(damaged)).look(Paths(paths)) == Looker().look(Paths(paths))


def test_a_name_that_no_file_has(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "_MANY", 0)
    (tmp_path / "a").write_text("")
    looks = list(unpack(Looker(lambda: built).look(Paths([f"{tmp_path}/a\0b", f"{tmp_path}/a"]))))
    assert looks[0] == NOTHING and looks[1] == identity((tmp_path / "a").stat())


def test_few_files_load_no_library(tmp_path: Path) -> None:
    def unwanted() -> Path:
        raise AssertionError

    assert list(unpack(Looker(unwanted).look(Paths([str(tmp_path / "none")])))) == [NOTHING]


def test_what_differs() -> None:
    before = pack(iter([(1, 2, 3, 4, 5, 6), (5, 6, 7, 8, 9, 10), NOTHING]))
    assert list(differing(before, before)) == []
    assert list(differing(before, pack(iter([(1, 2, 3, 4, 5, 6), (5, 6, 7, 8, 9, 11), (1, 0, 0, 0, 0, 0)])))) == [1, 2]
