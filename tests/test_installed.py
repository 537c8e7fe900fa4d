"""`pip install` copies all files of the package."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[1]


def test_every_file_of_the_package_is_installed() -> None:
    """Without an editable installation, what no pattern takes is missing, and the clone beside it hides that."""
    project = msgspec.toml.decode((ROOT / "pyproject.toml").read_bytes())
    package = ROOT / "pypto_build"
    patterns = project["tool"]["setuptools"]["package-data"]["pypto_build"]
    installed = {path for pattern in patterns for path in package.glob(pattern)}
    ours = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    shipped = package / "shipped"  # a store, which is built
    assert sorted(path for path in ours - installed if not path.is_relative_to(shipped)) == []


def test_pins_are_installed_from_third_party() -> None:
    """The package's own file is a link, which an installation copies by its content."""
    pins = ROOT / "third_party" / "pins.toml"
    assert (ROOT / "pypto_build" / "toolchain" / "pins.toml").resolve() == pins
    assert pins.is_file()


def test_vendored_code_has_its_licence_beside_it() -> None:
    directories = [path for path in (ROOT / "third_party").iterdir() if path.is_dir()]
    assert [path.name for path in directories if not list(path.glob("LICEN[CS]E*"))] == []


def test_nothing_of_another_revision_is_installed(tmp_path: Path) -> None:
    """pip builds in the clone, where what an earlier installation built still lies."""
    for name in ("setup.py", "pyproject.toml", "README.md", "pypto_build/__init__.py", "pypto_build/facts/machine.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "pypto_build" / "rules").mkdir()
    ship = "import sys, pathlib; made = pathlib.Path(sys.argv[1]); made.mkdir(exist_ok=True); (made / 'new').touch()"
    (tmp_path / "pypto_build" / "rules" / "ship.py").write_text(ship)
    (tmp_path / "pypto_build" / "rules" / "__init__.py").touch()
    built = tmp_path / "built" / "pypto_build"
    for stale in ("gone.py", "shipped/old"):
        (built / stale).parent.mkdir(parents=True, exist_ok=True)
        (built / stale).touch()
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", "built"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    names = {str(path.relative_to(built)) for path in built.rglob("*") if path.is_file()}
    assert names == {"__init__.py", "facts/machine.py", "rules/__init__.py", "rules/ship.py", "shipped/new"}


def test_the_oldest_dependencies_are_ones_that_work() -> None:
    """tree-sitter before 0.26.1 crashes where a text is read piece by piece and the parser asks whether to go on."""
    project = msgspec.toml.decode((ROOT / "pyproject.toml").read_bytes())
    bounds = dict(bound.split(">=") for bound in project["project"]["dependencies"])
    assert tuple(map(int, bounds["tree-sitter"].split("."))) >= (0, 26, 1)


def test_what_building_takes_is_what_running_takes() -> None:
    """`pip install` builds the runtime with modules of the package, whose dependencies have bounds there and here."""
    project = msgspec.toml.decode((ROOT / "pyproject.toml").read_bytes())
    matched = re.search(r"setup_requires=(\[.*?\])", (ROOT / "setup.py").read_text(encoding="utf-8"))
    assert matched is not None
    assert set(ast.literal_eval(matched[1])) < set(project["project"]["dependencies"])
