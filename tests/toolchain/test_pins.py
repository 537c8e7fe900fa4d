"""Revisions: from local clones into checkouts of our own, without touching the clones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pypto_build.toolchain import ToolchainError, pins, simpler_build
from pypto_build.toolchain.git import revision_of
from pypto_build.toolchain.pins import Repository


def git(directory: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    run = subprocess.run(["git", "-C", str(directory), *identity, *words], capture_output=True, text=True, check=True)
    return run.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with commits 0, 1 and 2, each of which writes its number."""
    directory = tmp_path / "clone"
    directory.mkdir()
    git(directory, "init", "-q")
    for number in range(3):
        (directory / "number").write_text(str(number))
        git(directory, "add", "number")
        git(directory, "commit", "-q", "-m", f"number {number}")
    return directory


def test_the_pins_of_this_project() -> None:
    assert sorted(pins.read_pins()) == ["pto-isa", "ptoas", "simpler"]


def test_each_revision_has_a_checkout(tmp_path: Path, clone: Path) -> None:
    cache = tmp_path / "cache"
    (clone / "number").write_text("edited")
    places = [pins.resolve(pins.SIMPLER, f"{clone}@{name}", cache) for name in ("main~1", "main")]
    assert [(checkout / "number").read_text() for checkout in places] == ["1", "2"]
    assert (clone / "number").read_text() == "edited"
    assert git(clone, "worktree", "list").count("\n") == 0
    commit = git(clone, "rev-parse", "main~2")
    assert (pins.resolve(pins.SIMPLER, commit, cache) / "number").read_text() == "0"  # here already


def test_a_path_is_taken_as_it_is(tmp_path: Path, clone: Path) -> None:
    assert pins.resolve(pins.PTO_ISA, str(clone), tmp_path / "cache") == clone
    assert revision_of(clone) == git(clone, "rev-parse", "HEAD")
    (clone / "number").write_text("edited")
    assert revision_of(clone) == git(clone, "rev-parse", "HEAD") + "+"


@pytest.mark.parametrize(
    "chosen, message",
    [
        ("{clone}@nothing", "revision nothing is not in {clone}; git log there lists what is"),
        ("abc", "revision abc is not in the cache; name a clone with PTO_ISA=PATH@abc, or scons fetch"),
        ("/nowhere/x", "no such directory; name the directory of a checkout, or a revision"),
        ("/nowhere@abc", "/nowhere is not a directory; before the '@', name the directory of a clone"),
    ],
)
def test_what_does_not_exist(tmp_path: Path, clone: Path, chosen: str, message: str) -> None:
    chosen = chosen.format(clone=clone)
    with pytest.raises(ToolchainError) as raised:
        pins.resolve(pins.PTO_ISA, chosen, tmp_path / "cache")
    assert str(raised.value) == f"PTO_ISA={chosen}: {message.format(clone=clone)}"


def test_a_checkout_that_was_changed(tmp_path: Path, clone: Path) -> None:
    checkout = pins.resolve(pins.SIMPLER, f"{clone}@main", tmp_path / "cache")
    (checkout / "number").write_text("edited")
    with pytest.raises(ToolchainError, match="has files that were changed by hand; remove the directory"):
        pins.resolve(pins.SIMPLER, f"{clone}@main", tmp_path / "cache")


def test_the_commits_between(tmp_path: Path, clone: Path) -> None:
    repository = Repository(pins.SIMPLER, tmp_path / "cache")
    repository.fetch(str(clone))
    first, last = git(clone, "rev-parse", "main~2"), git(clone, "rev-parse", "main")
    commits = repository.between(first, last)
    assert [repository.describe(commit).split()[-1] for commit in commits] == ["0", "1", "2"]
    assert repository.is_ancestor(first, last) and not repository.is_ancestor(last, first)


def test_built_once(tmp_path: Path, clone: Path) -> None:
    checkout = pins.resolve(pins.SIMPLER, f"{clone}@main", tmp_path / "cache")
    count = tmp_path / "count"
    command = f"{{python}} -c \"open('{count}', 'a').write('x')\""
    for _ in range(2):
        pins.build(pins.SIMPLER, checkout, sys.executable, {"SIMPLER_BUILD": command})
    assert count.read_text() == "x"
    with pytest.raises(ToolchainError, match="the build failed with exit status 1; see its output above, or set SIMP"):
        pins.build(pins.SIMPLER, checkout, sys.executable, {"SIMPLER_BUILD": "false"})


def test_the_build_of_simpler_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands, with programs that only say what they were called with."""
    programs, source = tmp_path / "bin", tmp_path / "simpler"
    programs.mkdir()
    source.mkdir()
    (source / "CMakeLists.txt").write_text("add_custom_target(build_package_sim)\n")
    for name, line in (("cmake", f'echo "$@" >> {tmp_path}/calls'), ("ninja", ""), ("python", "echo /nanobind")):
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    python = str(programs / "python")
    assert simpler_build.main([str(source), "--python", python]) == 0
    configure, build = (tmp_path / "calls").read_text().splitlines()
    build_dir = source / "build" / "pypto-build"
    assert configure.startswith(
        f"-S {source} -B {build_dir} -G Ninja -DPython_EXECUTABLE={python} -Dnanobind_DIR=/nanobind"
    )
    assert build.startswith(f"--build {build_dir} --parallel ") and build.endswith(" --target build_package_sim")
    (programs / "cmake").write_text("#!/bin/sh\necho what is wrong; exit 1\n")
    assert simpler_build.main([str(source), "--python", python]) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("what is wrong\n", f"{programs}/cmake: failed with exit status 1\n")
    (programs / "python").write_text("#!/bin/sh\nexit 1\n")
    assert simpler_build.main([str(source), "--python", python]) == 1
    message = f"{python}: the package nanobind is missing, which is needed to build simpler; run pip install nanobind\n"
    assert capsys.readouterr().err == message
