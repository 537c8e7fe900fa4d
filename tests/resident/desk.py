"""A workspace, and commands in it that may use a resident process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pypto_build.client import socket_address
from pypto_build.proof.digests import TICK_S
from tests.rules.project import Project

SLOW = "(sleep_a_while(), 2.0f * in[i])"
SLEEP = "#include <unistd.h>\nstatic int sleep_a_while() { static int once = usleep(20'000'000); return once; }\n"
_CLIENT = [sys.executable, "-m", "pypto_build.resident.client"]
_SCONS = ["-m", "SCons"]
_TIMES = re.compile(r"\(\d+\.\d\ds\)")


class Desk:
    """A workspace, and commands in it that may use a resident process of their own."""

    def __init__(self, root: Path) -> None:
        self.project = Project(root / "workspace")
        self.python = [sys.executable]
        self.sockets = root / "run"
        self.sockets.mkdir(mode=0o700)
        self.modules = root / "modules"
        self.modules.mkdir()
        (self.modules / "sitecustomize.py").write_text("")
        time.sleep(2 * TICK_S)
        paths = [str(self.modules), str(Path(socket_address.__file__).resolve().parents[2])]
        self.environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": str(self.sockets),
            "PYPTO_BUILD_SERVER": "1",
            "PYTHONPATH": os.pathsep.join(paths),
        }

    def start(self, *words: str, cwd: Path | None = None, **more: str) -> subprocess.Popen[str]:
        return self._start([*_CLIENT, *words], cwd, more)

    def run(self, *words: str, cwd: Path | None = None, **more: str) -> tuple[int, str]:
        return _ended(self.start(*words, cwd=cwd, **more))

    def start_scons(self, *words: str, **more: str) -> subprocess.Popen[str]:
        return self._start([*self.python, *_SCONS, *words], None, more)

    def scons(self, *words: str, **more: str) -> tuple[int, str]:
        return _ended(self.start_scons(*words, **more))

    def _start(self, command: list[str], cwd: Path | None, more: dict[str, str]) -> subprocess.Popen[str]:
        environment = {**self.environment, **more}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        directory = cwd or self.project.root
        return subprocess.Popen(command, cwd=directory, env=environment, text=True, **streams)  # type: ignore[call-overload, no-any-return]

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
                replays = [process for process in _group(child) if "pypto_build.replay" in words_of(process)]
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


def words_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


def is_gone(process: int, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not Path(f"/proc/{process}").exists():
            return True
        time.sleep(0.02)
    return False


def _ended(command: subprocess.Popen[str]) -> tuple[int, str]:
    with command:
        output, _ = command.communicate()
    return command.returncode, _TIMES.sub("()", output)
