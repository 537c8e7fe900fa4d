"""Two installations in different places, of different users, that have nothing in common but the store."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

from tests.trust.space import Space, write_module
from tests.trust.tested import Tested


def _installed(tested: Tested, root: Path) -> Tested:
    """A copy of the package in an environment of its own, installed as `pip install -e` does."""
    package = Path(tested.ask("import pypto_build; print(pypto_build.__path__[0])"))
    (root / "src").mkdir(parents=True)
    subprocess.run(["cp", "-r", str(package), str(root / "src" / "pypto_build")], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(root / "venv")], check=True)
    site = next((root / "venv" / "lib").glob("python*/site-packages"))
    (site / "__editable__.pypto_build-0.1.0.pth").write_text(f"{root / 'src'}\n")
    (site / "rest.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    variables = {"PYPTO_BUILD_STORE": str(root.parent / "store"), "HOME": str(root / "home")}
    return replace(tested, python=root / "venv" / "bin" / "python", variables=variables)


def _space(tested: Tested, root: Path) -> Space:
    return write_module(Space(root / "w", _installed(tested, root), tested.new_cache(root / "cache")))


def test_another_installation_takes_everything_from_the_store(tested: Tested, tmp_path: Path) -> None:
    one, other = _space(tested, tmp_path / "one"), _space(tested, tmp_path / "deeper" / "other")
    other.tested.variables["PYPTO_BUILD_STORE"] = one.tested.variables["PYPTO_BUILD_STORE"]
    assert other.tested.ask("import pypto_build; print(pypto_build.__path__[0])") == str(
        tmp_path / "deeper" / "other" / "src" / "pypto_build"
    )
    assert len(one.replay().work) == 5
    replayed = other.replay()
    assert replayed.cached and replayed.work == [], replayed.done
    assert replayed.actions("[runtime]", "[manifest]", "[headers]") == []

    other.edit("kernels/aiv/add.cpp", "TADD(", "TSUB(")
    assert other.replay().outcome.status == "mismatch"
    one.edit("kernels/aiv/add.cpp", "TADD(", "TSUB(")
    replayed = one.replay()
    assert replayed.outcome.status == "mismatch" and not replayed.actions("[cpp->.so] compile")
