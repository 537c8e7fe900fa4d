"""Through the resident process a command does what it does without it, and nothing is lost when that goes wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pypto_build.proof.digests import TICK_S
from pypto_build.resident import meeting
from tests.rules.project import Project

_CLIENT = [sys.executable, "-m", "pypto_build.resident.client"]
_SLOW = "(sleep_a_while(), 2.0f * in[i])"
_SLEEP = "#include <unistd.h>\nstatic int sleep_a_while() { static int once = usleep(20'000'000); return once; }\n"
_TIMES = re.compile(r"\(\d+\.\d\ds\)")


class Desk:
    """A workspace, and commands in it that may use a resident process of their own."""

    def __init__(self, root: Path) -> None:
        self.project = Project(root / "workspace")
        self.sockets = root / "run"
        self.sockets.mkdir(mode=0o700)
        self.modules = root / "modules"
        self.modules.mkdir()
        (self.modules / "sitecustomize.py").write_text("")
        time.sleep(2 * TICK_S)
        paths = [str(self.modules), str(Path(meeting.__file__).resolve().parents[2])]
        self.environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(self.sockets),
            "PYPTO_BUILD_SERVER": "1",
            "PYTHONPATH": os.pathsep.join(paths),
        }

    def start(self, *words: str, cwd: Path | None = None, **more: str) -> subprocess.Popen[str]:
        environment = {**self.environment, **more}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        place = cwd or self.project.root
        return subprocess.Popen([*_CLIENT, *words], cwd=place, env=environment, text=True, **streams)  # type: ignore[call-overload, no-any-return]

    def run(self, *words: str, cwd: Path | None = None, **more: str) -> tuple[int, str]:
        with self.start(*words, cwd=cwd, **more) as process:
            output, _ = process.communicate()
        return process.returncode, _TIMES.sub("()", output)

    @property
    def server(self) -> int:
        """The process that answers, once it does; 0 if there is none."""
        for _ in range(200):
            if any(path.suffix != ".pid" for path in (self.sockets / "pypto-build").glob("*")):
                return int(next((self.sockets / "pypto-build").glob("*.pid")).read_text())
            time.sleep(0.05)
        return 0

    @property
    def stands(self) -> list[int]:
        """Processes of the server's session that are no children of it, and lead a group: those that stand."""
        server = self.server
        session = [int(path.name) for path in Path("/proc").glob("[0-9]*") if _session(int(path.name)) == server]
        return [process for process in session if _leads(process) and process not in (server, *_children(server))]

    def serving(self, seconds: float = 20.0) -> int:
        """A child of the server that works for a command and has come as far as running kernels."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for child in _children(self.server):
                replays = [process for process in _group(child) if "pypto_build.replay" in _words(process)]
                if any(map(_children, replays)):  # of this command, or of a process that stands for it
                    return child
            time.sleep(0.02)
        raise AssertionError("nobody is served")


def _children(process: int) -> list[int]:
    try:
        text = Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def _session(process: int) -> int:
    with suppress(OSError):
        return os.getsid(process)
    return 0


def _leads(process: int) -> bool:
    with suppress(OSError):
        return os.getpgid(process) == process
    return False


def _group(leader: int) -> Iterator[int]:
    """The processes of a group."""
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getpgid(int(path.name)) == leader:
                yield int(path.name)


def _words(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


def _gone(process: int, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not Path(f"/proc/{process}").exists():
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def desk(tmp_path: Path, runtime: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    for _ in range(10):  # one may be just starting
        desk.run("shutdown")
        if all(_gone(int(note.read_text() or 0), 1.0) for note in (desk.sockets / "pypto-build").glob("*.pid")):
            return
    raise AssertionError("a resident process stays")


@pytest.fixture
def resident(desk: Desk) -> Desk:
    """With a resident process, and everything built."""
    assert desk.run("replay", "build_output/_jit_chain")[0] == 0
    assert desk.server
    return desk


@pytest.fixture
def again(resident: Desk) -> Desk:
    """With a process that stands for replays of the artifact."""
    assert resident.run("replay", str(resident.project.artifact))[0] == 0
    for _ in range(200):
        if resident.stands:
            return resident
        time.sleep(0.05)
    raise AssertionError("nobody stands for it")


def test_a_served_command_says_and_does_the_same(resident: Desk) -> None:
    project, artifact = resident.project, str(resident.project.artifact)
    words = {"pass": ("replay", artifact), "usage": ("replay", artifact, "NONSENSE=1"), "lint": ("lint", artifact)}
    served = {name: resident.run(*line) for name, line in words.items()}
    assert served == {name: resident.run(*line, "--no-server") for name, line in words.items()}
    assert {name: status for name, (status, _) in served.items()} == {"pass": 0, "usage": 2, "lint": 0}
    for expression, status in (("3.0f * in[i]", 1), ("broken", 3), ("2.0f * in[i]", 0)):
        project.write_kernel("twice", expression)
        found, output = resident.run("replay", artifact)
        assert found == status, output


def test_directory_environment_and_umask_travel(resident: Desk) -> None:
    beside = resident.project.root / "build_output"
    assert resident.run("replay", "_jit_chain", cwd=beside)[0] == 0
    assert (beside / "build" / "a2a3sim" / "_jit_chain" / "verdict.json").exists()
    status, output = resident.run(
        "replay", ".", f"BUILD_DIR={resident.project.root}/build", cwd=resident.project.artifact
    )
    assert (status, "[RUN] PASS" in output) == (0, True)
    (resident.project.root / "elsewhere").mkdir()
    resident.project.artifact.rename(resident.project.root / "elsewhere" / "_jit_chain")
    assert resident.run("replay", "_jit_chain", PYPTO_PROG_BUILD_DIR="elsewhere")[0] == 0


def test_a_command_is_served_by_the_process_that_stayed(again: Desk) -> None:
    again.project.write_kernel("twice", _SLOW, _SLEEP)
    with again.start("replay", str(again.project.artifact)) as command:
        child = again.serving()
        command.send_signal(signal.SIGINT)
        output, _ = command.communicate()
    assert command.returncode == 130, output
    assert "Traceback" not in output and _gone(child)
    assert again.server  # it goes on


def test_a_killed_command_ends_what_worked_for_it(again: Desk) -> None:
    again.project.write_kernel("twice", _SLOW, _SLEEP)
    with again.start("replay", str(again.project.artifact)) as command:
        child = again.serving()
        command.kill()
        command.communicate()
    assert _gone(child)


def test_a_crash_costs_time_only(again: Desk) -> None:
    again.project.write_kernel("twice", "(usleep(2'000'000 / 16), 2.0f * in[i])", "#include <unistd.h>\n")
    with again.start("replay", str(again.project.artifact)) as command:
        os.killpg(again.serving(), signal.SIGKILL)
        output, _ = command.communicate()
    assert command.returncode == 0
    assert output.count("pypto-build: the resident process ended in the middle; the command runs again\n") == 1
    assert "[RUN] PASS" in output


def test_one_that_stands_and_is_killed_is_done_without(again: Desk) -> None:
    for process in again.stands:
        os.kill(process, signal.SIGKILL)
    again.project.write_kernel("twice", "3.0f * in[i]")
    assert again.run("replay", str(again.project.artifact))[0] == 1


def test_what_changes_between_commands_is_seen_by_all_that_stand(resident: Desk) -> None:
    """Edit, undo, an option of the environment, a manifest, data: as without a server, again and again."""
    project, words = resident.project, ("replay", str(resident.project.artifact))
    for _ in range(2):
        assert resident.run(*words)[0] == 0
    tensor = (project.artifact / "data" / "out" / "y.pt").read_bytes()
    found = []
    for number in range(6):
        if number % 2 == 0:
            project.write_kernel("twice", "3.0f * in[i]" if number < 4 else "2.0f * in[i]")
        elif number == 1:
            project.write_kernel("twice", "2.0f * in[i]")
        elif number == 3:
            project.write_tensor("out/y", [0.0] * 16)
        else:
            (project.artifact / "data" / "out" / "y.pt").write_bytes(tensor)
        found.append(resident.run(*words)[0])
        assert found[-1] == resident.run(*words, "--no-server")[0]
    assert found == [1, 0, 1, 1, 1, 0]
    assert resident.stands


def test_a_process_that_does_not_answer_is_not_waited_for(resident: Desk) -> None:
    os.kill(resident.server, signal.SIGSTOP)
    try:
        assert resident.run("replay", str(resident.project.artifact))[0] == 0
    finally:
        os.kill(resident.server, signal.SIGCONT)


def test_a_changed_module_ends_it(resident: Desk) -> None:
    process = resident.server
    (resident.modules / "sitecustomize.py").write_text("import builtins\n")
    time.sleep(2 * TICK_S)
    assert resident.run("replay", str(resident.project.artifact))[0] == 0
    assert _gone(process)


def test_another_situation_has_another_process(resident: Desk) -> None:
    artifact = str(resident.project.artifact)
    assert resident.run("replay", artifact, PYTHONOPTIMIZE="1")[0] == 0
    for _ in range(200):
        if len(notes := list((resident.sockets / "pypto-build").glob("*.pid"))) == 2:
            break
        time.sleep(0.05)
    assert len({note.read_text() for note in notes}) == 2


def test_a_place_that_others_may_enter_is_not_used(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(desk.sockets))
    (desk.sockets / "pypto-build").mkdir(mode=0o755)
    assert meeting.directory() is None
    (desk.sockets / "pypto-build").chmod(0o700)
    assert meeting.directory() == f"{desk.sockets}/pypto-build"


@pytest.mark.parametrize(
    "chosen, automation, wanted",
    [("", "", True), ("0", "", False), ("1", "", True), ("", "true", False), ("1", "true", True)],
)
def test_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch, chosen: str, automation: str, wanted: bool) -> None:
    monkeypatch.setenv("PYPTO_BUILD_SERVER", chosen)
    monkeypatch.setenv("CI", automation)
    assert meeting.is_wanted() is wanted
