"""Two installations in different places, of different users: they have in common the store behind that of each."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

from tests.trust.space import Space, write_module
from tests.trust.tested import Tested


def _installed(tested: Tested, root: Path, remote: Path) -> Tested:
    """A copy of the package in an environment of its own, installed as `pip install -e` does."""
    package = Path(tested.ask("import pypto_build; print(pypto_build.__path__[0])"))
    (root / "src").mkdir(parents=True)
    subprocess.run(["cp", "-r", str(package), str(root / "src" / "pypto_build")], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(root / "venv")], check=True)
    site = next((root / "venv" / "lib").glob("python*/site-packages"))
    (site / "__editable__.pypto_build-0.1.0.pth").write_text(f"{root / 'src'}\n")
    (site / "rest.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    variables = {"PYPTO_BUILD_REMOTE": str(remote), "HOME": str(root / "home")}
    return replace(tested, python=root / "venv" / "bin" / "python", variables=variables)


def _space(tested: Tested, root: Path, remote: Path) -> Space:
    return write_module(Space(root / "w", _installed(tested, root, remote), tested.new_cache(root / "cache")))


def test_another_installation_takes_everything_from_the_store(tested: Tested, tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    places = (tmp_path / "one", tmp_path / "deeper" / "other")
    one, other = (_space(tested, root, tmp_path / "remote") for root in places)
    assert other.tested.ask("import pypto_build; print(pypto_build.__path__[0])") == str(
        tmp_path / "deeper" / "other" / "src" / "pypto_build"
    )
    assert len(one.replay("STORE_UPLOAD=wait").work) == 5
    replayed = other.replay()
    assert replayed.cached and replayed.work == [], replayed.done
    assert replayed.actions("[runtime]", "[manifest]", "[headers]") == []
    assert replayed.actions("[store]") == [f"[store] {tmp_path / 'remote'} had 7 of 7 results that are not here"]

    other.edit("kernels/aiv/add.cpp", "TADD(", "TSUB(")
    assert other.replay("STORE_UPLOAD=wait").outcome.status == "mismatch"
    one.edit("kernels/aiv/add.cpp", "TADD(", "TSUB(")
    replayed = one.replay()
    assert replayed.outcome.status == "mismatch" and not replayed.actions("[cpp->.so] compile")
