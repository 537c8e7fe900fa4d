"""Names of files in records, which are the same in every workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.proof.action import Roots


def roots(top: Path) -> Roots:
    (top / "w").mkdir(parents=True, exist_ok=True)
    return Roots({"top": top / "w", "out": top / "w" / "build"})


def test_what_was_missed_above_a_workspace_lies_above_none(tmp_path: Path) -> None:
    one, other = roots(tmp_path / "one"), roots(tmp_path / "a" / "deeper" / "place")
    missed = str(tmp_path / "conftest.py")
    assert one.names_missed(missed, ()) == {missed, "{above}/conftest.py"}
    assert one.names_missed(str(tmp_path / "one" / "lib" / "x.py"), ()) == {
        str(tmp_path / "one" / "lib" / "x.py"),
        "{above}/lib/x.py",
    }
    assert not Path(other.path("{above}/conftest.py")).exists()
    conftest = tmp_path / "a" / "deeper" / "conftest.py"
    conftest.touch()
    assert other.path("{above}/conftest.py") == str(conftest)
    assert other.names_missed(str(tmp_path / "a" / "conftest.py"), ()) == {str(tmp_path / "a" / "conftest.py")}
    assert not other.is_fixed("{above}/conftest.py")


@pytest.mark.parametrize("inside", ["w/x.h", "w/build/x.h"])
def test_what_was_missed_in_a_workspace_has_its_name(tmp_path: Path, inside: str) -> None:
    named = {"w/x.h": "{top}/x.h", "w/build/x.h": "{out}/x.h"}[inside]
    assert roots(tmp_path).names_missed(str(tmp_path / inside), ()) == {named}


def test_what_was_missed_beside_the_directories_above_has_its_path(tmp_path: Path) -> None:
    assert roots(tmp_path).names_missed("/usr/include/nothing.h", ()) == {"/usr/include/nothing.h"}


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("/w/x.cpp", "{top}/x.cpp"),
        ("-I/w/inc", "-I{top}/inc"),
        ("-isystem/w/inc", "-isystem{top}/inc"),
        ("@/w/flags", "@{top}/flags"),
        ("-ffile-prefix-map=/w=.", "-ffile-prefix-map={top}=."),
        ("-fdebug-prefix-map=/w/build=/o", "-fdebug-prefix-map={out}=/o"),
        ("-fmacro-prefix-map=/w=/w/long", "-fmacro-prefix-map={top}=/w/long"),
        ('-DROOT="/w"', '-DROOT="/w"'),
        ("ROOT=/w", "ROOT=/w"),
        ("-Wp,-DROOT=/w", "-Wp,-DROOT=/w"),
        ("--define-macro=ROOT=/w", "--define-macro=ROOT=/w"),
        ("-I{top}/inc", "-I{{top}/inc"),
        ("{top}/x.cpp", "{{top}/x.cpp"),
        ("-DX={top}", "-DX={{top}"),
    ],
)
def test_a_root_is_named_only_where_its_directory_is_opened(word: str, named: str) -> None:
    roots = Roots({"top": "/w", "out": "/w/build"})
    for _ in range(2):
        assert roots.words(["/usr/bin/g++", word]) == ["/usr/bin/g++", named]


def test_a_named_directory_of_our_tools_is_opened() -> None:
    roots = Roots({"top": "/w"})
    words = ["python", "--chip", "one=/w/one", "--chip", "two=/w/two", "-D", "one=/w/one"]
    assert roots.words(words) == ["python", "--chip", "one={top}/one", "--chip", "two={top}/two", "-D", "one=/w/one"]


def test_a_root_whose_path_has_braces() -> None:
    roots = Roots({"top": "/{artifact}", "artifact": "/a"})
    assert roots.words(["/{artifact}/x", "/a/x", "-I{artifact}/x"]) == ["{top}/x", "{artifact}/x", "-I{{artifact}/x"]
    assert roots.word("/{artifact}:/a") == "{top}:{artifact}"
    assert roots.path(roots.name("/{artifact}/x")) == "/{artifact}/x"
