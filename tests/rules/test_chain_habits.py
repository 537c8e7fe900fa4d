"""SCons habits with programs, artifacts, data and tests: SConscripts, variant directories, clones, options."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.rules.project import Project, Run
from tests.rules.test_chain_views import PROGRAM

pytest.importorskip("torch")

_TOOL = "from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n"
_MAKE = """import argparse
import struct
from pathlib import Path

from pypto_build.artifact.pt import write_pt

parser = argparse.ArgumentParser()
parser.add_argument("--output", type=Path)
parser.add_argument("--seed")
output = parser.parse_args().output
for name, factor in (("in/x", 1.0), ("out/y", 2.0)):
    write_pt(output / f"{name}.pt", "float32", (16, 16), struct.pack("256f", *(factor * i for i in range(256))))
"""
#: A team's directory: a program that is made, its data, its test and its binaries.
_TEAM = """Import("env")
copy = Action("cp $SOURCE $TARGET", "[copy] make p.py")
program = env.PtoProgram(name="p", source=env.Command("p.py", "p.in", copy))
data = env.GoldenData(name="d", script="make.py")
test = env.ReplayTest(name="t", artifact=program, data=data)
built = env.PtoArtifact(dir=program)
Return("test", "built")
"""
_TOP = """Export("env")
test, built = SConscript("team/SConscript"{variant})
env.Alias("all", [built, env.Install("inst", test)])
"""
_UNITS = [f"{verb} {name}" for verb, suffix in (("compile", "cpp"), ("link", "so"))
          for name in (f"kernels/aiv/twice.{suffix}", f"orchestration/prog.{suffix}")]  # fmt: skip
_SIGN, _GOLDEN, _RUN = "sign kernel_config.py", "make build_output/_jit_p/data", "run _jit_p DATA=build/data/d/snapshot"


@pytest.fixture
def project(tmp_path: Path, runtime: Path) -> Project:
    """A fresh checkout with a team's directory."""
    project = Project(tmp_path / "here")
    shutil.rmtree(project.artifact.parent)
    project.write("team/SConscript", _TEAM)
    project.write("team/p.in", PROGRAM)
    project.write("team/make.py", _MAKE)
    return project


def script(project: Project, text: str) -> None:
    """Write the SConstruct."""
    project.write("SConstruct", _TOOL + text)


def ran(run: Run) -> list[str]:
    """The actions of a run that did not fail."""
    assert run.status == 0, run.output
    return run.actions


@pytest.mark.parametrize(
    ("variant", "program", "data"),
    [
        ("", "team/p.py", "team/make.py"),
        (", variant_dir='v', duplicate=0", "v/p.py", "team/make.py"),
        (", variant_dir='v', duplicate=1", "v/p.py", "v/make.py"),
    ],
    ids=["its directory", "a variant directory", "a variant directory with copies"],
)
def test_a_chain_in_an_sconscript(project: Project, variant: str, program: str, data: str) -> None:
    """Paths begin at the SConscript; what is made lies in the variant directory; `-j`, null builds, and an edit."""
    script(project, _TOP.format(variant=variant))
    first = ran(project.scons("-j4", "all"))
    assert first == sorted([*_UNITS, _SIGN, f"compile {program}", _GOLDEN, "make d", "make p.py", _RUN])
    assert (project.root / program).is_file() and (project.root / data).is_file()
    assert (project.root / "inst/verdict.json").is_file()
    assert ran(project.scons("-j1", "all", "t")) == []
    project.edit_file("team/make.py", '("out/y", 2.0)', '("out/y", 2.000001)')
    assert ran(project.scons("all")) == ["make d", _RUN]
    project.edit_file("team/p.in", "    twice(x, y)", "    twice(x, y)  # nothing")
    assert ran(project.scons("all")) == [f"compile {program}", "make p.py"]
    assert ran(project.scons("all")) == []


def test_clones_take_what_others_make(project: Project) -> None:
    """A program of one environment is the artifact of tests of another, of a clone, and of another script's."""
    script(
        project,
        "program = env.PtoProgram(name='p', source='team/p.in')\n"
        "clone, other = env.Clone(), Environment(tools=[pypto])\n"
        "clone.ReplayTest(name='a', artifact=program)\n"
        "data = other.GoldenData(name='d', program=program, seed=3)\n"
        "other.ReplayTest(name='b', artifact=program, data=data)\n"
        "clone.PtoProgram(name='p', source='team/p.in')\n",
    )
    expected = sorted([*_UNITS, _SIGN, "compile team/p.in", _GOLDEN, "make d", "run _jit_p", _RUN])
    assert ran(project.scons("test")) == expected
    assert ran(project.scons("test")) == []


def test_a_directory_that_is_made_has_changed_if_its_files_have(project: Project) -> None:
    """Also after a run that ended between the artifact and what is made of it."""
    script(
        project,
        "env.Tool('zip')\n"
        "program = env.PtoProgram(name='p', source='team/p.in')\n"
        "listing = Action('ls $SOURCE > $TARGET', '[copy] make listing')\n"
        "env.Alias('all', [env.Zip('p.zip', program[0]), env.Command('listing', program[0], listing)])\n",
    )
    made = {"p.zip": "zip_builder", "listing": "[copy] make listing"}

    def remade(*targets: str) -> list[str]:
        run = project.quiet(*targets or ["all"])
        assert run.status == 0, run.output
        return [name for name, words in made.items() if words in run.output]

    assert remade("listing") == ["listing"]  # when SCons has not met the files in there
    assert remade() == ["p.zip"] and (project.root / "listing").is_file()
    assert remade() == []
    project.edit_file("team/p.in", "    twice(x, y)", "    twice(x, y)  # nothing")
    assert remade() == []
    manifest = next((project.root / "build_output").glob("*/kernel_config.py"))
    manifest.touch()
    os.link(manifest, project.root / "linked")
    assert remade() == []
    project.edit_file("team/p.in", "twice", "thrice")
    assert ran(project.scons("p")) != []
    assert remade() == [*made]
    assert remade() == []


def test_one_broken_program_stops_no_other(project: Project) -> None:
    """With `-k`, and in `scons test` without: the test of the other program runs."""
    project.write("team/q.in", PROGRAM.replace("pl.load(x", "pl.lood(x"))
    script(
        project,
        "for name in 'qp':\n"
        "    program = env.PtoProgram(name=name, source=f'team/{name}.in')\n"
        "    env.ReplayTest(name=f'{name}_test', artifact=program)\n",
    )
    run = project.scons("-k", "q_test", "p_test")
    assert run.status == 2 and "run _jit_p" in run.actions and "team/q.in:8:14: pl.lood" in run.output, run.output
    run = project.scons("test")
    assert run.status == 2 and "run _jit_p" not in run.actions, run.output
    assert "[test] PASS      p_test" in run.output
    assert not (project.root / "build_output/_jit_q/kernel_config.py").exists()


def test_deciders_and_reasons(project: Project) -> None:
    """Decider and AlwaysBuild are for the user's builder; content decides about the chain; `--debug=explain` tells."""
    always = "\nif ARGUMENTS.get('FORCE'):\n    env.AlwaysBuild('team/p.py')\n"
    script(project, f"env.Decider('timestamp-match')\n{_TOP.format(variant='')}{always}")
    assert project.scons("all").status == 0
    os.utime(project.root / "team/p.in", (1, 1))  # another time: their builder runs, ours finds nothing new
    run = project.scons("all", "--debug=explain")
    assert ran(run) == ["make p.py"]
    assert "scons: rebuilding `team/p.py' because `team/p.in' changed\n" in run.output
    os.utime(project.root / "team/make.py", (1, 1))
    assert ran(project.scons("all")) == []
    run = project.scons("all", "FORCE=1")
    assert [action for action in ran(run) if action.startswith(("make", "compile"))] == ["make p.py"]
