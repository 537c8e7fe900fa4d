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
    found = tmp_path / "a" / "deeper" / "conftest.py"
    found.touch()
    assert other.path("{above}/conftest.py") == str(found)
    assert other.names_missed(str(tmp_path / "a" / "conftest.py"), ()) == {str(tmp_path / "a" / "conftest.py")}
    assert not other.is_fixed("{above}/conftest.py")


@pytest.mark.parametrize("inside", ["w/x.h", "w/build/x.h"])
def test_what_was_missed_in_a_workspace_has_its_name(tmp_path: Path, inside: str) -> None:
    named = {"w/x.h": "{top}/x.h", "w/build/x.h": "{out}/x.h"}[inside]
    assert roots(tmp_path).names_missed(str(tmp_path / inside), ()) == {named}


def test_what_was_missed_beside_the_directories_above_has_its_path(tmp_path: Path) -> None:
    assert roots(tmp_path).names_missed("/usr/include/nothing.h", ()) == {"/usr/include/nothing.h"}
