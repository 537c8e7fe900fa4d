"""Two installations in different places, of different users: they have in common the store behind that of each."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

from tests.toolchain.test_pins import git
from tests.trust.compilers import write_script
from tests.trust.sharing import Sharing, installed
from tests.trust.space import CHAIN, Space, write_chain, write_module
from tests.trust.tested import Tested


def _space(tested: Tested, root: Path, remote: Path) -> Space:
    return write_module(Space(root / "w", installed(tested, root, str(remote)), tested.new_cache(root / "cache")))


def test_another_installation_takes_everything_from_the_store(tested: Tested, tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    places = (tmp_path / "one", tmp_path / "deeper" / "other")
    one, other = (_space(tested, root, tmp_path / "remote") for root in places)
    assert other.tested.ask("import pypto_build; print(pypto_build.__path__[0])") == str(
        tmp_path / "deeper" / "other" / "src" / "pypto_build"
    )
    script = write_script(tested, tmp_path / "my-g++", 'exec g++ "$@"')
    compiler = f"CXX={script}"  # of which there is no runtime yet
    replayed = one.replay("STORE_UPLOAD=wait", compiler)
    assert len(replayed.work) == 5 and len(replayed.actions("[runtime]")) == 1, replayed.done
    places[0].rename(tmp_path / "gone")  # as on another machine, where nothing of it is
    replayed = other.replay(compiler)
    (tmp_path / "gone").rename(places[0])
    assert replayed.cached and replayed.work == [], replayed.done
    assert replayed.actions("[runtime]", "[manifest]", "[headers]") == []
    assert replayed.actions("[store]") == [f"[store] {tmp_path / 'remote'} had 7 of 7 results that are not here"]

    other.edit("kernels/aiv/add.cpp", "TADD(", "TSUB(")
    assert other.replay("STORE_UPLOAD=wait", compiler).outcome.status == "mismatch"
    one.edit("kernels/aiv/add.cpp", "TADD(", "TSUB(")
    replayed = one.replay(compiler)
    assert replayed.outcome.status == "mismatch" and not replayed.actions("[cpp->.so] compile")


def test_edits_by_turns_are_as_without_a_store(tested: Tested, tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    compiler = write_script(tested, tmp_path / "my-g++", 'exec g++ "$@"')
    sharing = Sharing(tested, tmp_path / "work", str(tmp_path / "remote"), 3, f"CXX={compiler}")
    for _ in range(12):
        sharing.step()
    assert sharing.tally.faults == []
    assert sharing.tally.shared["hits"] > 0


#: One of each kind of result, and of each thing that a workspace may have elsewhere.
_SCENES = "SCENE=scenes/scene_"
_COMMANDS = (
    ("replay", "JIT=_jit_sum", "CHECK=1"),
    ("replay", "JIT=_jit_sum", "MEMORY=weak"),
    ("replay", "JIT=_jit_sum", "DATA=../data"),
    ("replay", "JIT=_jit_sum", "RUNTIME=torch"),
    ("hazards", "JIT=_jit_sum"),
    *([("debug", "JIT=_jit_sum", "TASK=0", "SCRIPT=bt 1")] if shutil.which("gdb") else []),
    ("replay", "hazards", f"{_SCENES}chain.py::TestChain::small"),
    ("replay", "hazards", f"{_SCENES}relay.py::TestRelay::small"),
    ("replay", "JIT=_jit_chain", "RUNTIME=simpler", "SIMPLER=../simpler"),
    ("build", "JIT=_jit_chain", "PLATFORM=a2a3", "SIMPLER=../simpler"),
    ("replay", "JIT=_jit_chain", "CXX={place}/tools/bin/my-g++"),
)
#: A toolkit for hardware whose kernels this machine's compiler makes, of the flags that it knows.
_TOOLKIT = {
    "bin/ccec": """[ "$1" = --version ] && echo ccec 1.0 && exit
for word; do
    shift
    case "$word" in -g|-c|-o|-I*|-fdebug-prefix-map=*|*.cpp|*.o|*.tmp) set -- "$@" "$word" ;; esac
done
exec g++ -x c++ -fno-asynchronous-unwind-tables -fno-stack-protector "$@"
""",
    "bin/ld.lld": """[ "$1" = --version ] && echo ld.lld 1.0 && exit
exec ld "$@"
""",
    "tools/hcc/bin/aarch64-target-linux-gnu-g++": 'exec g++ "$@"\n',
}
_WORK = (
    "[cpp->.so] compile",
    "[cpp->.so] link",
    "[manifest]",
    "[meta]",
    "[headers]",
    "[instructions]",
    "[replay] run",
    "[cpp->.so] extract",
)


def _furnished(space: Space, programs: Path) -> Space:
    """With scene tests, and beside it data, a simpler and compilers."""
    write_chain(replace(space, name=CHAIN))
    interop = Path(__file__).parents[1] / "interop"
    ours = shutil.ignore_patterns("__pycache__")
    shutil.copytree(interop / "scenes", space.root / "scenes", ignore=ours)
    shutil.copytree(space.root / "build_output" / "_jit_sum" / "data", space.root.parent / "data")
    simpler = space.root.parent / "simpler"
    shutil.copytree(interop / "standin", simpler, ignore=ours)
    (simpler / ".gitignore").write_text("build\n__pycache__\n")
    for checkout in (simpler, simpler / "build" / "pto-isa"):
        git(checkout, "init", "-q")
        git(checkout, "add", "-A")
        git(checkout, "commit", "-q", "-m", "a revision")
    write_script(space.tested, space.root.parent / "tools" / "bin" / "my-g++", 'exec g++ "$@"')
    for name, text in _TOOLKIT.items():
        script = space.root.parent / "tools" / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f"#!/bin/sh\n{text}")
        script.chmod(0o755)
    program = space.write("program.py", "def run(tensors, scalars):\n    tensors[1][:] = 2 * tensors[0] + 1\n")
    space.variables |= {"PYPTO_STANDIN_PROGRAM": str(program), "ASCEND_HOME_PATH": str(space.root.parent / "tools")}
    path = f"{programs}:{space.tested.python.parent}:{os.environ['PATH']}"
    space.tested = replace(space.tested, variables={**space.tested.variables, "PATH": path})
    return space


def test_every_kind_of_result_is_the_same_elsewhere(tested: Tested, tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    write_script(tested, tmp_path / "programs" / "g++-15", 'exec g++ "$@"')
    places = (tmp_path / "one", tmp_path / "deeper" / "other")
    one = _furnished(_space(tested, places[0], tmp_path / "remote"), tmp_path / "programs")
    for words in _COMMANDS:
        done = one.scons(*(word.format(place=places[0]) for word in words), "STORE_UPLOAD=wait", longest_s=600)
        assert done.status == 0, done
    other = _space(tested, places[1], tmp_path / "remote")
    shutil.rmtree(other.root)
    shutil.copytree(one.root, other.root, ignore=shutil.ignore_patterns("build", "__pycache__"))
    for name in ("data", "simpler", "tools"):
        shutil.copytree(places[0] / name, places[1] / name, ignore=shutil.ignore_patterns("__pycache__"))
    other.variables = {name: text.replace(str(places[0]), str(places[1])) for name, text in one.variables.items()}
    path = one.tested.variables["PATH"].replace(str(places[0]), str(places[1]))
    other.tested = replace(other.tested, variables={**other.tested.variables, "PATH": path})
    places[0].rename(tmp_path / "gone")
    taken = 0
    for words in _COMMANDS:
        done = other.scons(*(word.format(place=places[1]) for word in words), "STORE_UPLOAD=no")
        assert done.status == 0, done
        assert [line for line in done.output.splitlines() if line.startswith(_WORK)] == [], done
        for hits, requested in re.findall(r"^\[store\] .* had (\d+) of (\d+) results", done.output, re.MULTILINE):
            assert hits == requested, done
            taken += int(hits)
    assert taken > 40
