"""A kill between any two links of a chain is harmless: from the program to the verdict of its test."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.rules.project import Project, Run
from tests.rules.test_chain_views import PROGRAM

pytest.importorskip("torch")

#: Notes where an action begins, where its command has ended and where its result is recorded; and kills scons there.
_SCRIPT = """import os
import signal

from pypto_build.proof.output_dir import OutputDir
from pypto_build.rules import pypto

build = OutputDir._build


def note(event):
    with open("events.txt", "a") as events:
        events.write(event + "\\n")
    if event == os.environ.get("KILLED_AT"):
        os.kill(os.getpid(), signal.SIGKILL)


def noted(place, action, spawn, *others):
    def run(*command):
        note("begin " + action.name)
        ended = spawn(*command)
        note("end " + action.name)
        return ended

    outcome = build(place, action, run, *others)
    note("record " + action.name)
    return outcome


OutputDir._build = noted
env = Environment(tools=[pypto])
SetOption("num_jobs", 1)  # else what is recorded before a kill is chance
env.ReplayTest(name="t", artifact=env.PtoProgram(name="p", source="p.py"))
"""
#: The links of the chain, by the names of their results, and those of an edit of the kernel.
_LINKS = {"artifact", "golden", "kernels/aiv/twice.o", "kernels/aiv/twice.so", "orchestration/prog.o",
          "orchestration/prog.so", "kernel_config.py", "replays/default"}  # fmt: skip
_EDITED = {"artifact", "kernels/aiv/twice.o", "kernels/aiv/twice.so", "replays/default"}
_OUT = "build/a2a3sim/_jit_p"
#: Files that appear in the middle of an action.
_WRITTEN = (
    "build_output/_jit_p/ptoas/twice.pto", "build_output/_jit_p/data/in/x.pt", f"{_OUT}/kernels/aiv/twice.o.tmp",
    f"{_OUT}/kernels/aiv/twice.so.tmp", f"{_OUT}/replays/default/actual/y.pt",
)  # fmt: skip


def checkout(root: Path) -> Project:
    """A fresh checkout with a store of its own."""
    project = Project(root)
    shutil.rmtree(project.artifact.parent)
    project.write("SConstruct", _SCRIPT)
    project.write("p.py", PROGRAM)
    return project


def run(project: Project, killed_at: str = "") -> Run:
    """Run the test, which scons does not survive where it is killed."""
    (project.root / "events.txt").write_text("")
    return project.scons("t", env={"KILLED_AT": killed_at})


def judged(project: Project) -> object:
    """The verdict, but for times and places."""
    verdict = json.loads((project.root / _OUT / "replays/default/verdict.json").read_bytes())
    return verdict["status"], verdict["outputs"], verdict["tasks"]


def kill_at_each(project: Project, fresh: Project, links: set[str]) -> None:
    """Kill runs at the end and at the record of each link in turn. Together they do what one whole run does."""
    whole = run(fresh)
    events = (fresh.root / "events.txt").read_text().splitlines()
    order = [event.removeprefix("end ") for event in events if event.startswith("end ")]
    assert set(order) == links
    done: set[str] = set()
    for event in (f"{moment} {link}" for link in order for moment in ("end", "record")):
        killed = run(project, event)
        assert killed.status == -signal.SIGKILL, f"{event}\n{killed.output}"
        done.update(killed.actions)
    last = run(project)
    assert last.status == whole.status, last.output
    assert {action for action in done.union(last.actions) if not action.startswith("restored")} == set(whole.actions)


def test_kills_at_each_link(tmp_path: Path, runtime: Path) -> None:
    """From nothing, and after an edit that makes the kernel wrong; nothing is left of it when it is taken back."""
    project, fresh = checkout(tmp_path / "here"), checkout(tmp_path / "fresh")
    for links, old, new in ((_LINKS, "* 2.0", "* 3.0"), (_EDITED, "* 3.0", "* 2.0")):
        kill_at_each(project, fresh, links)
        assert judged(project) == judged(fresh)
        assert run(project).actions == run(fresh).actions  # a failing run is repeated
        for one in (project, fresh):
            one.edit_file("p.py", old, new)
    assert (run(project).status, run(fresh).status) == (0, 0)
    assert judged(project) == judged(fresh) and run(project).actions == []


def test_kills_in_the_middle_of_an_action(tmp_path: Path, runtime: Path) -> None:
    """All processes end when a file appears that the action writes."""
    project, fresh = checkout(tmp_path / "here"), checkout(tmp_path / "fresh")
    for name in _WRITTEN:
        process = project.start("SCons", "-Q", "t")
        while process.poll() is None and not (project.root / name).exists():
            time.sleep(0.001)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert (run(project).status, run(fresh).status) == (0, 0)
    assert judged(project) == judged(fresh)
    assert run(project).actions == []
    assert {str(path.relative_to(project.root)) for path in (project.root / "build_output").rglob("*")} == {
        str(path.relative_to(fresh.root)) for path in (fresh.root / "build_output").rglob("*")
    }
