"""Completion offers names from the file system as they are: no shell evaluates one of them, not even after Enter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pypto_build.editor.setup.completion import SHELLS, script
from tests.editor.shell_session import ShellSession

_COMMAND = "touch evaluated"
_NAMES = [
    f"_jit_1$({_COMMAND})",
    f"_jit_2`{_COMMAND}`",
    f"_jit_3;{_COMMAND};",
    "_jit_4 two words",
    f"_jit_5'$({_COMMAND})",
    f'_jit_6"$({_COMMAND})',
    f"_jit_7\\$({_COMMAND})",
    "_jit_8${HOME}*?[a]",
    f"_jit_9&({_COMMAND})|{_COMMAND}",
]
_TESTS = [f"first`{_COMMAND}`", f"second;{_COMMAND};", f"third$({_COMMAND})"]
_SHOWS = {
    "bash": "scons() { printf '<%s>' \"$@\"; }; pypto-build() { printf '<%s>' \"$@\"; }",
    "zsh": "scons() { printf '<%s>' \"$@\"; }; pypto-build() { printf '<%s>' \"$@\"; }",
    "fish": "function scons; printf '<%s>' $argv; end; function pypto-build; printf '<%s>' $argv; end",
}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A workspace whose artifacts and tests have names that a shell would evaluate."""
    top = tmp_path / "top"
    for name in _NAMES:
        (top / "build_output" / name / "inner").mkdir(parents=True)
        (top / "build_output" / name / "kernel_config.py").touch()
    (top / "SConstruct").write_text(
        "# pypto\n" + "".join(f'env.ReplayTest(name="{name}", x=1)\n' for name in _TESTS[:2])
    )
    (top / "build").mkdir()
    (top / "build" / ".declared_tests").write_text(f"{_TESTS[2]}\n")
    return top


@pytest.fixture(params=SHELLS)
def session(request: pytest.FixtureRequest, top: Path) -> Iterator[ShellSession]:
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    file = top.parent / "completion"
    file.write_text(script(shell), encoding="utf-8")
    first = {
        "bash": "bind 'set completion-query-items 0'; bind 'set page-completions off'",
        "zsh": "autoload -U compinit; compinit -D",
        "fish": "true",
    }
    setup = [first[shell], _SHOWS[shell], f"source {file}"]
    home = top.parent / "home"
    home.mkdir()
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
    }
    with ShellSession(shell, top, setup, environment) as session:
        yield session


def _evaluated(top: Path) -> list[Path]:
    return list(top.parent.rglob("evaluated"))


def test_a_completed_name_is_one_word(session: ShellSession, top: Path) -> None:
    for number, name in enumerate(_NAMES, 1):
        assert f"<JIT={name}>" in session.press(f"scons replay JIT=_jit_{number}\t\r"), name
        assert not _evaluated(top), name
        assert f"<{name}>" in session.press(f"pypto-build replay _jit_{number}\t\r"), name
        assert not _evaluated(top), name


def test_a_completed_directory_is_one_word(session: ShellSession, top: Path) -> None:
    for number, name in enumerate(_NAMES, 1):
        shown = session.press(f"pypto-build replay build_output/_jit_{number}\t\r")
        assert f"<build_output/{name}/>" in shown or f"<build_output/{name}>" in shown
        assert not _evaluated(top), name
        shown = session.press(f"scons replay SCENE=build_output/_jit_{number}\tkernel\t\r")
        assert "\\" in name or f"<SCENE=build_output/{name}/kernel_config.py>" in shown
        assert not _evaluated(top), name


def test_a_completed_test_is_one_word(session: ShellSession, top: Path) -> None:
    for name in _TESTS:
        assert f"<{name}>" in session.press(f"scons {name[:4]}\t\r"), name
        assert not _evaluated(top), name


def test_lists_of_names_are_not_evaluated(session: ShellSession, top: Path) -> None:
    lines = ["scons replay JIT=", "scons replay TEST=", "scons ", "pypto-build replay "]
    for line in (*lines, "pypto-build replay build_output/"):
        session.press(f"{line}\t\t\x15")
        assert not _evaluated(top), line


def test_control_characters_in_names_are_not_evaluated(session: ShellSession, top: Path) -> None:
    for number, name in enumerate(("a\n$(%s)", "b\r$(%s)", "c\t;%s;", "d\x1b[2J`%s`", "e!!;%s;", "f\n;%s\n;"), 1):
        artifact = top / "build_output" / f"_jit_x{number}{name % _COMMAND}"
        artifact.mkdir()
        (artifact / "kernel_config.py").touch()
    for number in range(1, 7):
        for line in (f"scons replay JIT=_jit_x{number}", f"pypto-build replay build_output/_jit_x{number}"):
            session.press(f"{line}\t\t\r")
            assert not _evaluated(top), line


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a terabyte"])
@pytest.mark.parametrize("name", ["SConstruct", "build/.declared_tests"])
def test_files_that_never_end_are_not_read(tmp_path: Path, name: str, kind: str) -> None:
    """A press of TAB in a directory of somebody else's waits for nothing and takes no memory."""
    (tmp_path / "build").mkdir()
    (tmp_path / "SConstruct").write_text("# pypto\n")
    file = tmp_path / name
    file.unlink(missing_ok=True)
    match kind:
        case "a pipe":
            os.mkfifo(file)
        case "a device":
            file.symlink_to("/dev/ptmx")
        case _:
            file.touch()
            os.truncate(file, 1 << 40)
    command = [sys.executable, "-m", "pypto_build.cli", "--complete", "line", "scons repl"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    offered = [] if name == "SConstruct" else ["replay"]
    assert ([line.partition("\t")[0] for line in run.stdout.splitlines()], run.stderr) == (offered, "")
