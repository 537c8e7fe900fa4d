"""Rules compose: every attribute that names files, by what it is given, and what an edit of that builds again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from SCons.Environment import Environment

from pypto_build.rules.docs import all_rules
from pypto_build.rules.machinery.attributes import Kind, RuleError
from pypto_build.rules.machinery.inputs import as_node, as_nodes, makers, path_of
from tests.rules.attributes import NO_RULE
from tests.rules.project import Project

_HEAD = """import glob
import os
import shutil
from pypto_build.rules import pypto

env = Environment(tools=[pypto])
MADE = {made}


def copy(target, source, env):
    for to, of in zip(target, source):
        shutil.copyfile(str(of), str(to))


def at(path):
    if not MADE:
        return f"src/{{path}}"
    found = sorted(glob.glob(f"src/{{path}}") + glob.glob(f"src/{{path}}/**", recursive=True))
    files = [file for file in found if os.path.isfile(file)]
    return env.Command([f.replace("src/", "made/", 1) for f in files], files, Action(copy, "[copy] make " + path))
"""
_RULES = """
art, data = at("_jit_chain"), at("data")
kernel = env.PtoKernel(name="k", source=at("k.cpp"), core_type="aiv", extra_include_dirs=[at("inc")])
orchestration = env.PtoOrchestration(source=at("orch.cpp"))
config = env.KernelConfig(artifact=art, platform="a5sim")
artifact = env.PtoArtifact(dir=art)
test = env.ReplayTest(name="t", artifact=artifact, data=data, golden=at("golden"))
lint = env.LintTest(name="lint_t", artifact=art)
hazards = env.HazardTest(name="hazards_t", artifact=art, data=data)
made = env.GoldenData(name="d", script=at("make.py"), deps=at("numbers.txt"))
env.Install("installed", [kernel, test])
env.Alias("all", [kernel, orchestration, config, artifact, test, lint, hazards, made, "installed"])
"""
_KERNEL = """#include <cstdint>

#include "tensor.h"
#include "scale.h"

extern "C" void kernel_entry(int64_t* args) {
    float* x = reinterpret_cast<float*>(reinterpret_cast<ChipTensor*>(args[0])->buffer.addr);
    x[0] = SCALE * x[1];
}
"""
_SCRIPT = """import argparse
import struct
from pathlib import Path

from pypto_build.artifact.pt import write_pt

parser = argparse.ArgumentParser()
parser.add_argument("--output", type=Path)
parser.add_argument("--seed")
output = parser.parse_args().output
write_pt(output / "in" / "x.pt", "float32", (1,), struct.pack("f", float(Path("src/numbers.txt").read_text())))
"""
_RUN = "run _jit_chain DATA={0}/data golden={0}/golden"
_NAMES = ("kernels/aiv/plus_one", "kernels/aiv/twice", "orchestration/chain")
_UNITS = [action for name in _NAMES for action in (f"compile {{0}}/_jit_chain/{name}.cpp", f"link {name}.so")]


def fill(project: Project, made: bool) -> None:
    """Write the sources of all rules, and the SConstruct."""
    src = project.root / "src"
    src.mkdir()
    shutil.move(project.artifact / "data", src / "data")
    shutil.move(project.artifact, src / "_jit_chain")
    (src / "golden").mkdir()
    shutil.copyfile(src / "data/out/y.pt", src / "golden/y.pt")
    shutil.copyfile(src / "_jit_chain/orchestration/chain.cpp", src / "orch.cpp")
    project.write("src/k.cpp", _KERNEL)
    project.write("src/inc/scale.h", "#define SCALE 2.0f\n")
    project.write("src/make.py", _SCRIPT)
    project.write("src/numbers.txt", "3")
    project.write("SConstruct", _HEAD.format(made=made) + _RULES)


@pytest.fixture(scope="module", params=[False, True], ids=["given", "made"])
def column(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, runtime: Path
) -> tuple[Project, bool]:
    """A workspace in which everything was built, from a fresh checkout in one command, and once more for nothing."""
    project = Project(tmp_path_factory.mktemp("composed") / "here")
    fill(project, request.param)
    run = project.scons("all")
    assert run.status == 0, run.output
    where = "made" if request.param else "src"
    copied = {
        f"make {name}"
        for name in ("_jit_chain", "data", "golden", "inc", "k.cpp", "make.py", "numbers.txt", "orch.cpp")
    }
    assert set(run.actions) == {
        *(action.format(where) for action in _UNITS),
        f"compile {where}/k.cpp",
        f"compile {where}/orch.cpp",
        "link kernels/aiv/k.so",
        "link orchestration/orch.so",
        f"sign {where}/_jit_chain/kernel_config.py",
        _RUN.format(where),
        "run lint_t",
        "run hazards_t",
        "make d",
        *(copied if request.param else ()),
    }
    run = project.scons("all")
    assert (run.status, run.actions) == (0, []), run.output
    return project, request.param


_TWICE = ["compile {0}/_jit_chain/kernels/aiv/twice.cpp"] * 2 + ["link kernels/aiv/twice.so"] * 2
#: An edit of what an attribute names: the file, what is replaced by what, and the actions that follow.
EDITS: dict[str, tuple[str, str, str, list[str]]] = {
    "PtoKernel.source": ("k.cpp", "* x[1]", "* x[2]", ["compile {0}/k.cpp", "link kernels/aiv/k.so"]),
    "PtoKernel.source, a comment": ("k.cpp", "#include <", "// nothing\n#include <", ["compile {0}/k.cpp"]),
    "PtoKernel.extra_include_dirs": ("inc/scale.h", "2.0f", "3.0f", ["compile {0}/k.cpp", "link kernels/aiv/k.so"]),
    "PtoOrchestration.source": (
        "orch.cpp", "= 2}", "= 3}", ["compile {0}/orch.cpp", "link orchestration/orch.so"],
    ),
    "artifact": (
        "_jit_chain/kernels/aiv/twice.cpp", "in[i];", "in[i] + 0.0f;",
        [*_TWICE, _RUN, "run hazards_t", "run lint_t"],
    ),
    "ReplayTest.golden": ("golden/y.pt", "", "", [_RUN]),
    "ReplayTest.data, HazardTest.data": ("data/in/x.pt", "", "", [_RUN, "run hazards_t"]),
    "GoldenData.script": ("make.py", "import argparse", "import argparse  # nothing", ["make d"]),
    "GoldenData.deps": ("numbers.txt", "3", "4", ["make d"]),
}  # fmt: skip


@pytest.mark.parametrize("attribute", EDITS)
def test_an_edit_builds_what_follows(column: tuple[Project, bool], attribute: str) -> None:
    project, made = column
    name, old, new, expected = EDITS[attribute]
    path = project.root / "src" / name
    if name.endswith(".pt"):
        before = path.read_bytes()
        at = before.index(b"\x80\x3f" if b"\x80\x3f" in before else b"\x40\x40")
        path.write_bytes(before[: at - 2] + bytes([1]) + before[at - 1 :])  # by less than any tolerance
    else:
        project.edit_file(f"src/{name}", old, new)
    run = project.scons("all")
    top = name.partition("/")[0]
    where = "made" if made else "src"
    actions = sorted([action.format(where) for action in expected] + ([f"make {top}"] if made else []))
    assert (run.status, run.actions) == (0, actions), run.output
    assert project.scons("all").actions == []


def test_clean_and_no_exec(project: Project) -> None:
    """`-n` says what is known before anything is made; `-c` removes what was made, and no source."""
    fill(project, made=True)
    before = {path for path in project.root.rglob("*") if path.is_file()}
    run = project.scons("-n", "k", "t")
    assert run.status == 0, run.output
    assert run.actions == [
        "compile made/k.cpp",
        "link kernels/aiv/k.so",
        *(f"make {n}" for n in ("_jit_chain", "data", "golden", "k.cpp")),
    ]
    assert {path for path in project.root.rglob("*") if path.is_file()} - before <= {
        project.root / "build/.declared_tests"
    } | set((project.root / "build").rglob("*"))
    assert project.scons("k", "t").status == 0
    run = project.scons("-c", "k", "t")
    assert run.status == 0, run.output
    assert {path for path in project.root.rglob("*") if path.is_file()} == before


SPELLED: dict[str, Callable[[Any, str, Any], Any]] = {
    "text": lambda env, name, make: name,
    "path": lambda env, name, make: Path(name),
    "absolute": lambda env, name, make: Path(name).absolute(),
    "from the top": lambda env, name, make: f"#/{name}",
    "variable": lambda env, name, make: name.replace("some", "${SOME}"),
    "node": lambda env, name, make: make(name),
    "entry": lambda env, name, make: env.Entry(name),
    "list": lambda env, name, make: [make(name)],
    "command": lambda env, name, make: env.Command(make(name), "of.txt", "x"),
}


@pytest.mark.parametrize(
    ("kind", "spelled"),
    [(kind, spelled) for kind in (Kind.FILE, Kind.DIRECTORY) for spelled in SPELLED][:-1],  # not of a directory
)
def test_spellings_are_the_same_node(spelled: str, kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    env: Any = Environment(tools=[], SOME="some")
    env.fs = env.fs.__class__(str(tmp_path))
    make = env.fs.File if kind is Kind.FILE else env.fs.Dir
    name = f"some/{kind.value}"
    node = as_node(env, SPELLED[spelled](env, name, make), kind, "Rule: source", "a thing")
    assert node.get_abspath() == str(tmp_path / name)
    assert isinstance(node, make(name).__class__) and path_of(node) == tmp_path / name
    assert makers(node) == ([node] if spelled == "command" else [])


def test_the_files_of_a_builder_are_one_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one for each directory below; directories that are named themselves all count."""
    monkeypatch.chdir(tmp_path)
    env: Any = Environment(tools=[])
    env.fs = env.fs.__class__(str(tmp_path))
    files = env.Command(["one/deep/er/a.h", "one/b.h", "two/c.h"], "of.txt", "x")
    assert list(map(path_of, as_nodes(env, [files], Kind.DIRECTORIES, "R: a", "a thing"))) == [
        tmp_path / "one",
        tmp_path / "two",
    ]
    named = [env.Dir("one"), env.Dir("one/deep")]
    assert list(as_nodes(env, named, Kind.DIRECTORIES, "R: a", "a thing")) == named


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "R: a=3 is not a file, given as text, path or node; the attribute is a thing"),
        ([], "R: a: 0 nodes, but exactly one file is expected; the attribute is a thing"),
        (["x", "y"], "R: a: 2 nodes, but exactly one file is expected; the attribute is a thing"),
    ],
)
def test_what_is_no_file(value: object, message: str) -> None:
    with pytest.raises(RuleError) as error:
        as_node(Environment(tools=[]), value, Kind.FILE, "R: a", "a thing")
    assert str(error.value) == message


@pytest.mark.parametrize("attribute", NO_RULE)
def test_a_result_of_another_kind_is_one_line(attribute: str) -> None:
    """A result of another kind is refused by each attribute whose kind no rule makes."""
    rule, name = attribute.split(".")
    (taken,) = (one for row in all_rules() if row.name == rule for one in row.attributes if one.name == name)
    env: Any = Environment(tools=[])
    assert taken.kind is not None
    node, what = (env.Alias("a test")[0], "an alias") if taken.kind.is_directory else (env.Dir("data"), "a directory")
    with pytest.raises(RuleError) as error:
        taken.value(rule, node, env)
    expected = f"but a {taken.kind.value} is expected; the attribute is {taken.doc}"
    assert str(error.value) == f"{rule}: {name}: {node} is {what}, {expected}"


_PROGRAM = """import helper
import pypto_build.compiler.language as pl

M = pl.Tensor[[16, 16], pl.FP32]


@pl.jit.incore
def twice(x: M, y: pl.Out[M]):
    pl.store(pl.load(x, [0, 0], [16, 16]) * helper.FACTOR, [0, 0], y)


@pl.jit
def prog(x: M, y: pl.Out[M]):
    twice(x, y)
"""
_CHAIN = """
program = env.PtoProgram(name="p", source=at("prog.py"), deps=at("helper.py"))
base = "build_output/_jit_p"
module = env.PtoModule(name="spliced", source=at("twice.pto"), kernel=f"{base}/kernels/aiv/twice.cpp")
env.Alias("all", [env.PtoKernel(name="k", source=module, core_type="aiv"), env.KernelConfig(artifact=program)])
env.LintTest(name="lint_p", artifact=program)
"""


def test_a_program_and_a_module_that_are_made(project: Project) -> None:
    """Program, what it imports, and a module: each edit leads to what it changes, and an edit that changes nothing
    ends there."""
    project.write("src/prog.py", _PROGRAM)
    project.write("src/helper.py", "FACTOR = 2.0\n")
    project.write(
        "SConstruct", _HEAD.format(made=True) + 'env.PtoProgram(name="p", source=at("prog.py"), deps=at("helper.py"))\n'
    )
    assert project.scons("p").actions == [
        "compile made/prog.py",
        "make build_output/_jit_p/data",
        "make helper.py",
        "make prog.py",
    ]
    shutil.copyfile(project.root / "build_output/_jit_p/ptoas/twice.pto", project.root / "src/twice.pto")
    project.write("SConstruct", _HEAD.format(made=True) + _CHAIN)
    run = project.scons("all", "lint_p")
    assert (run.status, run.actions) == (0, [
        "compile spliced/spliced.cpp", "link kernels/aiv/k.so", "make twice.pto", "regenerating from made/twice.pto",
        "run lint_p", "sign build_output/_jit_p/kernel_config.py", "spliced -> spliced",
    ]), run.output  # fmt: skip
    assert project.scons("all", "lint_p").actions == []
    project.edit_file("src/twice.pto", "2.0", "3.0")
    assert project.scons("all", "lint_p").actions == [
        "compile spliced/spliced.cpp",
        "link kernels/aiv/k.so",
        "make twice.pto",
        "regenerating from made/twice.pto",
        "spliced -> spliced",
    ]
    project.edit_file("src/helper.py", "2.0", "4.0 / 2")
    assert project.scons("all", "lint_p").actions == ["compile made/prog.py", "make helper.py"]
    project.edit_file("src/helper.py", "4.0", "8.0")
    assert "run lint_p" in project.scons("all", "lint_p").actions
    assert project.scons("all", "lint_p").actions == []
