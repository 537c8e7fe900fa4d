"""WATCH=1: a round for every save, with exactly the actions that the save calls for, until Ctrl-C."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from pypto_build.rules.machinery.watch import Waiting, Watched, _sources
from tests.rules.project import Project, Run, open_when_read, run_of

_LONGEST_S = 120


@pytest.fixture
def project(stocked: Project) -> Project:
    """Return a project whose binaries are built; the tests here concern later steps."""
    return stocked


class Watching:
    """A run of SCons with WATCH=1, round by round."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def round(self) -> Run:
        """The next round, to where it waits; its status is not told."""
        lines: list[str] = []
        assert self._process.stdout is not None
        for line in self._process.stdout:
            lines.append(line)
            if "waiting for a change" in line:
                return run_of(0, "".join(lines))
        raise AssertionError(f"ended without waiting: {''.join(lines)}")

    def interrupt(self) -> tuple[int, str]:
        """Ctrl-C: the exit status, and what was still printed."""
        os.killpg(self._process.pid, signal.SIGINT)
        rest, _ = self._process.communicate()
        return self._process.returncode, rest

    def end(self, number: int) -> tuple[int, str]:
        """Send a signal to the process alone: the exit status, and the last line that was still printed."""
        self._process.send_signal(number)
        rest, _ = self._process.communicate()
        return self._process.returncode, "".join(rest.splitlines(keepends=True)[-1:])


@contextmanager
def watching(project: Project, *words: str) -> Iterator[Watching]:
    """Run `scons replay WATCH=1`; it is ended with the block, also after an error."""
    process = project.start("SCons", "-Q", *words, "VERBOSE=1", "WATCH=1")
    limit = threading.Timer(_LONGEST_S, process.kill)
    limit.start()
    try:
        yield Watching(process)
    finally:
        limit.cancel()
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def test_every_save_does_what_it_calls_for(project: Project) -> None:
    with watching(project, "replay", "JIT=_jit_chain") as scons:
        first = scons.round()
        assert "run _jit_chain" in first.actions and "PASS" in first.output

        project.edit("kernels/aiv/twice.cpp", "2.0f * in[i]", "3.0f * in[i]")
        edited = scons.round()
        assert edited.actions == ["compile kernels/aiv/twice.cpp", "link kernels/aiv/twice.so", "run _jit_chain"]
        assert "[watch] build_output/_jit_chain/kernels/aiv/twice.cpp changed\n" in edited.output
        assert re.search(r"^\[watch\] -+ \d\d:\d\d:\d\d -+$", edited.output, re.MULTILINE)
        assert "'y' FAIL" in edited.output

        project.edit("kernels/aiv/twice.cpp", "3.0f * in[i]", "nothing")
        broken = scons.round()
        assert broken.actions == ["compile kernels/aiv/twice.cpp"] and "error: " in broken.output

        project.edit("kernels/aiv/twice.cpp", "nothing", "2.0f * in[i]")
        assert "PASS" in scons.round().output

        project.write_tensor("out/y", [0.0] * 16)
        golden = scons.round()
        assert golden.actions == ["run _jit_chain"] and "'y' FAIL" in golden.output
        assert scons.interrupt() == (2, "\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("when", ["it waits", "a round runs"])
def test_a_signal_ends_it_in_one_line(project: Project, number: signal.Signals, when: str) -> None:
    """The round that runs ends with it."""
    before = signal.signal(number, signal.SIG_DFL)  # under nohup, SIGHUP is ignored, and so it would be in the run
    with watching(project, "replay", "JIT=_jit_chain") as scons:
        signal.signal(number, before)
        scons.round()
        if when == "a round runs":
            pipe = project.root / "pipe"
            os.mkfifo(pipe)
            project.write_kernel("twice", "2.0f * x[i]", f'#include "{pipe}"')
            writer = open_when_read(pipe)
        assert scons.end(number) == (128 + number, f"pypto-build: ended by {number.name}\n")
        if when == "a round runs":
            waiting = select.poll()
            waiting.register(writer, 0)
            assert waiting.poll(_LONGEST_S * 1000) == [(writer, select.POLLERR)], "a process still reads the pipe"
            os.close(writer)


def test_a_save_with_the_old_time_is_seen(project: Project) -> None:
    """It is written in place, with the same size."""
    kernel = project.artifact / "kernels/aiv/twice.cpp"
    with watching(project, "replay", "JIT=_jit_chain") as scons:
        assert "PASS" in scons.round().output
        before = kernel.stat()
        kernel.write_text(kernel.read_text().replace("2.0f", "3.0f"))
        os.utime(kernel, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert "'y' FAIL" in scons.round().output


def test_data_of_a_declared_test_and_of_data_are_watched(project: Project) -> None:
    shutil.copytree(project.artifact / "data", project.root / "more")
    test = 'env.ReplayTest(name="other", artifact="build_output/_jit_chain", data="more")\n'
    project.write("SConstruct", f"from pypto_build.rules import pypto\nenv = Environment(tools=[pypto])\n{test}")
    with watching(project, "other") as scons:
        assert "PASS" in scons.round().output
        shutil.copy(project.artifact / "data" / "in" / "x.pt", project.root / "more" / "out" / "y.pt")
        changed = scons.round()
        assert changed.output.startswith("[watch] more/out/y.pt changed\n")
        assert changed.actions == ["run _jit_chain DATA=more"]


def _no_notices() -> NoReturn:
    raise OSError


def test_what_came_and_went_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Editors write a file beside the one they save, and rename or remove it."""
    before, beside, after = ({"a": (1, 1, 1, 1)}, {"a": (1, 1, 1, 1), "b": (2, 2, 2, 2)}, {"a": (3, 1, 1, 1)})
    looks = iter([before, before, beside, before, beside, beside | after, after, after])
    monkeypatch.setattr(Watched, "look", lambda _, notices=None: next(looks))
    monkeypatch.setattr("pypto_build.rules.machinery.watch.Notices", _no_notices)
    waiting = Waiting(Watched())
    assert (waiting.wait(before), waiting.now) == (["a"], after)


def test_what_lies_in_the_build_directory_is_not_watched(project: Project) -> None:
    """The tools write there, and read what they wrote, in every round."""
    project.write("build/note.h", "// one\n")
    project.edit("kernels/aiv/twice.cpp", "#include", f'#include "{project.root}/build/note.h"\n#include')
    with watching(project, "replay", "JIT=_jit_chain") as scons:
        assert "PASS" in scons.round().output
        project.write("build/note.h", "// two\n")
        project.edit("kernels/aiv/twice.cpp", "2.0f * in[i]", "3.0f * in[i]")
        assert scons.round().output.startswith("[watch] build_output/_jit_chain/kernels/aiv/twice.cpp changed\n")


def test_what_we_write_of_a_scene_test_is_not_watched(tmp_path: Path) -> None:
    """Its data is made anew within a round, which would be a change that nobody made."""
    build, scenes = tmp_path / "build", tmp_path / "scenes"
    scenes.mkdir()
    outputs = {build / "a2a3sim" / "scene.TestX": build / "scenes" / "scene" / "scene.TestX"}
    workspace: Any = SimpleNamespace(
        outputs=outputs, selected=None, options={"JIT": ""}, build_dir=build, data_dirs={scenes}
    )
    assert list(_sources(workspace)) == [scenes]
    workspace.options["JIT"] = "build/scenes/scene/scene.TestX"
    assert list(_sources(workspace)) == [*outputs.values(), scenes]


def test_a_manifest_that_breaks_is_waited_for(project: Project) -> None:
    with watching(project, "lint", "JIT=_jit_chain") as scons:
        scons.round()
        project.edit("kernel_config.py", "KERNELS = [", "KERNELS = [[")
        assert "scons: *** " in scons.round().output
        project.edit("kernel_config.py", "KERNELS = [[", "KERNELS = [")
        assert "scons: *** " not in scons.round().output


def test_the_newest_artifact_is_taken_as_soon_as_it_is_there(project: Project) -> None:
    with watching(project, "replay", "JIT=latest") as scons:
        assert "run _jit_chain" in scons.round().actions
        newer = project.artifact.with_name("_jit_newer")
        shutil.copytree(project.artifact, project.root / "elsewhere")
        (project.root / "elsewhere").rename(newer)
        os.utime(newer / "kernel_config.py")
        assert "run _jit_newer" in scons.round().actions


def test_a_saved_sconstruct_starts_anew(project: Project) -> None:
    with watching(project, "replay", "JIT=_jit_chain") as scons:
        scons.round()
        project.edit_file("SConstruct", "env = Environment", "print('again')\nenv = Environment")
        assert "again\n" in scons.round().output


@pytest.mark.parametrize("words", [("-c",), (), ("-h", "replay")])
def test_nothing_to_do_again(project: Project, words: tuple[str, ...]) -> None:
    run = project.scons(*words, "WATCH=1")
    line = "scons: *** WATCH=1: needs a verb to run again; name one, such as replay\n"
    assert (run.status, run.output) == (2, line)


def test_what_cannot_begin_ends(project: Project) -> None:
    run = project.replay("WATCH=1", "PLATFORM=a5sim", "JIT=_jit_chan")
    assert run.status == 2 and run.output.startswith("scons: *** JIT=_jit_chan: no such artifact")
