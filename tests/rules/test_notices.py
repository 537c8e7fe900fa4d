"""Notices of saved files from the system, and changes that are seen without a notice."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pypto_build.rules.machinery import watch as module
from pypto_build.rules.machinery.watch import News, Notices, Waiting, Watched


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two directories of files, one of them a link to a file elsewhere; and a header apart."""
    for name in ("artifact/a.cpp", "artifact/kernels/b.cpp", "elsewhere/c.cpp", "headers/h.h", "headers/other.h"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one")
    (tmp_path / "artifact" / "c.cpp").symlink_to(tmp_path / "elsewhere" / "c.cpp")
    return tmp_path


@pytest.fixture
def watched(tree: Path) -> Watched:
    return Watched([str(tree / "artifact")], [str(tree / "headers" / "h.h")], without=[str(tree / "artifact/build")])


def _told(directory: Path, *files: Path) -> Notices:
    notices = Notices()
    notices.add(str(directory), True)
    for path in files:
        notices.add(str(path), False)
    return notices


def _next(notices: Notices) -> News:
    """All that is told within a moment."""
    news = notices.wait(5.0)
    while more := notices.wait(0.05):
        news.paths.update(more.paths)
        news.unclear |= more.unclear
    return news


def _renamed(path: Path) -> None:
    beside = path.with_name("beside")
    beside.write_text("two")
    beside.rename(path)


def _anew(path: Path) -> None:
    path.unlink()
    path.write_text("two")


_SAVES: dict[str, Callable[[Path], object]] = {
    "in place": lambda path: path.write_text("two"),
    "by renaming": _renamed,
    "anew": _anew,
    "not at all any more": lambda path: path.unlink(),
    "appended to": lambda path: path.open("a").write("more"),
}


@pytest.mark.parametrize("how", _SAVES)
def test_a_saved_file_is_told(tree: Path, how: str) -> None:
    notices = _told(tree / "artifact")
    assert not notices.wait(0.0)
    _SAVES[how](tree / "artifact" / "a.cpp")
    news = _next(notices)
    assert str(tree / "artifact" / "a.cpp") in news.paths and news.done and not news.unclear
    notices.close()


def test_one_that_is_still_open_is_not_done(tree: Path) -> None:
    notices = _told(tree / "artifact")
    with open(tree / "artifact" / "a.cpp", "w") as file:
        file.write("half")
        file.flush()
        assert not _next(notices).done
    assert _next(notices).done
    notices.close()


_CHANGES: list[Callable[[Path], None]] = [
    lambda tree: (tree / "artifact/new").mkdir(),
    lambda tree: _renamed(tree / "headers/h.h"),
]


@pytest.mark.parametrize("change", _CHANGES)
def test_what_takes_a_look_is_unclear(tree: Path, change: Callable[[Path], None]) -> None:
    notices = _told(tree / "artifact", tree / "headers/h.h")
    change(tree)
    assert _next(notices).unclear
    notices.close()


def test_too_few_watches_are_an_error(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    notices = Notices()
    with pytest.raises(OSError, match="none"):
        notices.add(str(tree / "none"), True)
    monkeypatch.setattr(module, "_file_systems", lambda: {os.stat(tree).st_dev: "nfs4"})
    with pytest.raises(OSError, match="the system does not report all changes of this file"):
        notices.add(str(tree / "artifact"), True)
    notices.close()
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.fixture(params=["told", "looked for", "not told of"])
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Choose how changes are seen: by notices, by looking, or by looking because the system gives no notice of this
    one.
    """
    if request.param == "looked for":
        monkeypatch.setattr(module, "_init", lambda: module._checked("inotify", -1))  # as if there were too many
    if request.param == "not told of":
        monkeypatch.setattr(Notices, "wait", lambda _, seconds: News())
        monkeypatch.setattr("pypto_build.rules.machinery.watch._LOOK_ANYWAY_S", 0.01)
    yield request.param


@pytest.mark.parametrize("how", _SAVES)
@pytest.mark.parametrize("name", ["artifact/a.cpp", "artifact/kernels/b.cpp", "artifact/c.cpp", "headers/h.h"])
def test_every_way_sees_the_same(tree: Path, watched: Watched, method: str, how: str, name: str) -> None:
    seen, changes = watched.look(), list[list[str]]()
    waits = Waiting(watched)
    waiting = threading.Thread(target=lambda: changes.append(waits.wait(seen)))
    waiting.start()
    (tree / "headers" / "other.h").write_text("two")  # nobody asked for it
    (tree / "artifact" / "build").mkdir()
    (tree / "artifact" / "build" / "x.o").write_text("two")
    (tree / "artifact" / "a.cpp.swp").write_text("two")
    waiting.join(0.1)
    _SAVES[how]((tree / name).resolve())
    waiting.join(20)
    names = set(changes[0])
    while waits.now != watched.look():  # it was told between the parts of a save that has several
        names.update(waits.wait(dict(waits.now)))
    beside = str((tree / name).with_name("beside"))  # what a save renames may be looked at before it is renamed
    assert names - {beside} == {str(tree / name)}
    waits.close()


def test_a_file_in_a_new_directory_is_seen(tree: Path, watched: Watched) -> None:
    seen = watched.look()
    done = threading.Timer(0.1, lambda: (tree / "artifact/new/deep").mkdir(parents=True))
    later = threading.Timer(0.2, lambda: (tree / "artifact/new/deep/d.cpp").write_text("one"))
    done.start()
    later.start()
    assert Waiting(watched).wait(seen) == [str(tree / "artifact/new/deep/d.cpp")]


@pytest.mark.parametrize("name", ["headers/h.h", "elsewhere/c.cpp"])
def test_what_was_not_there_is_seen_when_it_comes(
    tree: Path, watched: Watched, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pypto_build.rules.machinery.watch._LOOK_ANYWAY_S", 600.0)
    (tree / name).unlink()
    seen = watched.look()
    waits = Waiting(watched)
    later = threading.Timer(0.1, lambda: (tree / name).write_text("one"))
    later.start()
    assert waits.wait(seen) == [str(tree / name.replace("elsewhere", "artifact"))]
    waits.close()
