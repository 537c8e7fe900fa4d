"""Nothing is imported from the working directory, whichever verb is run there and whatever PYTHONPATH says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build import cli
from pypto_build.toolchain.python import own_environment, own_tool, python_code
from tests.rules.project import Project

_NAMES = (
    "json.py", "typing.py", "numpy.py", "msgspec.py", "torch.py", "subprocess.py", "sitecustomize.py",
    "usercustomize.py", "pypto_build/__init__.py", "SCons/__init__.py", "site_scons/site_init.py",
)  # fmt: skip
_REQUIRED = {
    "bisect": ["AXIS=flags", "GOOD=-O1", "BAD=-O2"],
    "hang": ["LOG=kernel_config.py"],
    "pto_diff": ["OTHER=."],
}
#: Shows its path and that it is run as a main module, and exits with the number of its arguments.
_MODULE = """
import json, sys
if __name__ == "__main__":
    print(json.dumps([sys.argv[1:], sys.path]))
    sys.exit(len(sys.argv) - 1)
"""


def write_traps(directory: Path, marker: Path) -> None:
    """Modules that leave `marker` when they are imported."""
    for name in _NAMES:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(marker)!r}, 'a').write({name!r} + '\\n')\nraise SystemExit(9)\n")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """An artifact that holds modules, beside which nothing is."""
    trapped = Project(tmp_path_factory.mktemp("trapped"))
    write_traps(trapped.artifact, trapped.root / "imported")
    return trapped


@pytest.mark.parametrize("verb", sorted(cli._VERBS))
def test_verbs_inside_an_artifact(project: Project, verb: str) -> None:
    words = [*own_tool("pypto_build.cli"), verb, ".", *_REQUIRED.get(verb, [])]
    run = subprocess.run(words, cwd=project.artifact, capture_output=True, text=True, check=False)
    assert not (project.root / "imported").exists(), (project.root / "imported").read_text()
    assert "Traceback" not in run.stdout + run.stderr
    if verb in ("build", "replay", "lint", "report"):
        assert run.returncode == 0, run.stdout + run.stderr


def test_an_empty_entry_of_the_path(project: Project) -> None:
    """Entries that mean the working directory do not reach the commands, which import `sitecustomize` from them."""
    code = "import os; os.environ['PYTHONPATH'] = ':.:'; from pypto_build import cli; cli.main(['replay', '.', '-f'])"
    run = subprocess.run(
        python_code(sys.executable, code), cwd=project.artifact, capture_output=True, text=True, check=False
    )
    assert not (project.root / "imported").exists(), (project.root / "imported").read_text()
    assert "[RUN] PASS" in run.stdout, run.stdout + run.stderr


def test_entries_that_are_absolute_stay() -> None:
    environment = {"PYTHONPATH": os.pathsep.join(["", "/a", ".", "b/c", "/d", ""]), "HOME": "/h"}
    assert own_environment(environment) == {"PYTHONPATH": f"/a{os.pathsep}/d", "HOME": "/h"}
    assert own_environment({"PYTHONPATH": "", "HOME": "/h"}) == {"HOME": "/h"}


def test_a_module_runs_as_by_its_flag(tmp_path: Path) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "shown.py").write_text(_MODULE)
    (tmp_path / "json.py").write_text("raise SystemExit(9)")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "modules")}
    words = [*own_tool("shown"), "a", "-b"]
    run = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 2, run.stderr
    arguments, path = json.loads(run.stdout)
    assert arguments == ["a", "-b"]
    assert str(tmp_path) not in path and all(map(os.path.isabs, path))


def test_a_tool_is_of_the_copy_that_started_it(tmp_path: Path) -> None:
    """A clone that is newer than what is installed runs its own tools."""
    installed = tmp_path / "installed" / "pypto_build" / "__init__.py"
    installed.parent.mkdir(parents=True)
    installed.write_text("raise SystemExit(9)")
    launcher = Path(own_tool("")[1])
    package = tmp_path / "clone" / "pypto_build"
    copy = package / "toolchain" / launcher.name
    shutil.copytree(launcher.parent, copy.parent, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(launcher.parents[1] / "startup.py", package)
    (package / "__init__.py").touch()
    (package / "shown.py").write_text(_MODULE)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    words = [sys.executable, str(copy), "pypto_build.shown"]
    assert subprocess.run(words, env=environment, capture_output=True, check=False).returncode == 0
