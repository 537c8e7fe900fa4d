"""Compilers that are scripts: one that can be changed, and one that waits to be told to go on."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.trust.commands import Command, run, wait_for
from tests.trust.space import Space
from tests.trust.tested import Tested, must

_RECOMPILE = Path(__file__).with_name("recompile.py")

_SCRIPT = """#!/bin/sh
# The runtime's module, which other tests need too, is compiled once for all.
case "$*" in *runtime/src*.cpp*|*-shared*/library.o*) exec {python} {recompile} {store} g++ "$@" ;; esac
{body}
"""

#: Whether the factor is the wrong one, by what ``question`` asks of ``probe``. Both lie in ``asked``, beside the
#: directory of the script.
QUESTIONS = {
    "none": "false",
    "exists": 'test -e "$probe"',
    "directory": 'test -d "$probe"',
    "link": 'test -L "$probe"',
    "target": 'test "$(readlink "$probe")" = two',
    "execute": 'test -x "$probe"',
    "mode": 'test "$(stat -L -c %a "$probe" 2>&1)" = 755',
    "size": 'test "$(stat -L -c %s "$probe" 2>&1)" = 5',
    "names": 'ls -a "$probe" 2>&1 | grep -q hidden',
    "refusal": 'LC_ALL=C cat "$probe/x" 2>&1 | grep -q "Not a directory"',
    "resolved": 'realpath "$probe" 2>&1 | grep -q two',
    "through": 'test -e "/proc/self/root$probe"',
    "search": "command -v asked-for > /dev/null",
    "program": 'test "$(asked-for 2>&1)" = two',
}
_ASKING = """beside=$(cd "$(dirname "$0")/.." && pwd)/asked
probe=$beside/probe
case $(cat "$beside/question") in
{cases}
esac && scale=-DSCALE=3.0f || scale=
exec g++ $scale "$@"
"""
ASKING = _ASKING.format(cases="\n".join(f"{name}) {test} ;;" for name, test in QUESTIONS.items()))

_HOLD = """case "$*" in
*{unit}*)
    count=$(($(cat {directory}/count 2>/dev/null || echo 0) + 1))
    echo $count > {directory}/count
    if [ $count -eq {nth} ]; then
        : > {directory}/started
        while [ ! -e {directory}/go ]; do sleep 0.02; done
        g++ "$@"; status=$?
        : > {directory}/compiled
        while [ ! -e {directory}/undone ]; do sleep 0.02; done
        exit $status
    fi ;;
esac
exec g++ "$@"
"""


def write_compiler(space: Space, path: Path, body: str) -> Path:
    """A script that is called as a compiler; ``body`` is what it does for all but the runtime."""
    return write_script(space.tested, path, body)


#: What ``probe`` may be.
STATES = ("nothing", "file", "larger", "executable", "directory", "hidden", "one", "two", "circle")


def put_probe(root: Path, state: str) -> None:
    """Let the probe of the workspace ``root`` be something else."""
    probe = root / "asked" / "probe"
    probe.parent.mkdir(exist_ok=True)
    if probe.is_dir() and not probe.is_symlink():
        shutil.rmtree(probe)
    probe.unlink(missing_ok=True)
    match state:
        case "nothing":
            pass
        case "directory" | "hidden":
            probe.mkdir()
            (probe / ("name" if state == "directory" else ".hidden")).touch()
        case "one" | "two" | "circle":
            probe.symlink_to("probe" if state == "circle" else state)
        case _:
            probe.write_text("x" * 5 if state == "larger" else "x")
            probe.chmod(0o755 if state == "executable" else 0o644)


def write_asking(space: Space) -> Path:
    """A compiler that asks what ``question`` says, and two programs that it may find on PATH."""
    for name in ("one", "two"):
        space.write(f"asked/{name}", name)
        space.write(f"asked/in_{name}/asked-for", f"#!/bin/sh\necho {name}\n").chmod(0o755)
    space.write("asked/question", "none")
    return write_compiler(space, space.root / "tools" / "asking-g++", ASKING)


def prepare_runtime(tested: Tested) -> None:
    """Let the compilers that are scripts have the runtime's module that is there already."""
    script = write_script(tested, tested.home / "compiler", 'exec g++ "$@"')
    for module in tested.runtime.glob("*/_embedded*.so"):
        words = [str(tested.python), "-m", "pypto_build.runtime.build", "--module", str(tested.home / "module.so")]
        environment = tested.environment(tested.home / "cache") | {"RECOMPILED": str(module)}
        must(run([*words, "--compiler", str(script)], tested.home, environment))


def write_script(tested: Tested, path: Path, body: str) -> Path:
    """A script that is called as a compiler, in the environment that is tested."""
    store = tested.home / "modules"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_SCRIPT.format(python=sys.executable, recompile=_RECOMPILE, store=store, body=body))
    path.chmod(0o755)
    return path


@dataclass(frozen=True)
class Holding:
    """A compiler that waits, at its n-th call for one unit, before it reads and before it ends."""

    directory: Path
    program: Path

    @classmethod
    def write(cls, space: Space, directory: Path, unit: str, nth: int = 1) -> Holding:
        """Write the script; ``unit`` is part of the names of the files of that unit, and of no others."""
        directory.mkdir(parents=True, exist_ok=True)
        for name in ("count", "started", "go", "compiled", "undone"):
            (directory / name).unlink(missing_ok=True)
        body = _HOLD.format(unit=unit, directory=directory, nth=nth)
        return cls(directory, write_compiler(space, directory / "g++-that-waits", body))

    def started(self, command: Command) -> bool:
        """Wait until it waits before it reads; False if the command ended without that."""
        wait_for(lambda: (self.directory / "started").exists() or not command.running, 120)
        return (self.directory / "started").exists()

    def let_it_read(self) -> None:
        """Let it compile, and wait until it did."""
        (self.directory / "go").touch()
        assert wait_for(lambda: (self.directory / "compiled").exists())

    def let_it_end(self) -> None:
        """Let it end."""
        (self.directory / "undone").touch()
