"""`scons` and `pypto-build` in forks of one process that has loaded them, which most runs of a test would do first.

A run is what a job of the farm or of the resident process is: a fork with the environment, directory and streams of
whoever asked. What is about how processes start, and what they leave, starts real ones. Replays, and tools that need
PyTorch, are forked from one process of the session that has loaded them, as the product does for many tests at once.
"""

from __future__ import annotations

import fcntl
import gc
import hashlib
import io
import marshal
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from pypto_build.client.socket_address import START_VARIABLES

_TESTS = Path(__file__).resolve().parent
_REPOSITORY = str(_TESTS.parent)
_SCONS, _CLI = "SCons", "pypto_build.cli"
#: Tools that load PyTorch, with the words after which they do.
_GOLDENS = {"pypto_build.compiler.data": ("--golden",), "pypto_build.compiler.golden": ()}
_LARGEST = 1 << 18
_NUMBER = struct.Struct("i")


def run(
    module: str, words: Sequence[str], directory: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m module words`` in a directory and an environment, with both of its streams as one."""
    command = [sys.executable, "-m", module, *words]
    if not _FORKS.serves(module, environment):
        return subprocess.run(
            command,
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    with tempfile.TemporaryFile() as output:
        status = _FORKS.start(module, words, directory, environment, output.fileno()).wait()
        output.seek(0)
        return subprocess.CompletedProcess(command, status, output.read().decode())


def _start(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the variables that decide how Python starts."""
    return sorted(pair for pair in environment.items() if pair[0].startswith(START_VARIABLES))


class Forked:
    """A command that runs in a fork, with those methods of `subprocess.Popen` that are wanted of it."""

    def __init__(self, news: int) -> None:
        self._news = open(news, "rb", buffering=0)  # noqa: SIM115 - closed at the command's end
        self.pid = int(_NUMBER.unpack(self._news.read(_NUMBER.size))[0])
        self._process = os.pidfd_open(self.pid)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, None as long as it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status; that of SIGKILL where it does not tell one. Raises `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            if not select.select([self._process], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a fork", timeout or 0)
            status = self._news.read(_NUMBER.size) if select.select([self._news], [], [], 0)[0] else b""
            self.returncode = _NUMBER.unpack(status)[0] if status else -signal.SIGKILL
            self._news.close()
            os.close(self._process)
        return self.returncode


class ForkServer:
    """The process, which starts with the first command and ends with this one; ``environment`` is how it starts."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def __reduce__(self) -> tuple[type[ForkServer], tuple[dict[str, str]]]:
        """Another process that gets it has a server of its own."""
        return ForkServer, (self._environment,)

    def serves(self, module: str, environment: Mapping[str, str]) -> bool:
        """Return whether a fork is what a process of this module in this environment is."""
        return module in (_SCONS, _CLI) and _start(environment) == _start(self._environment)

    def start(
        self,
        module: str,
        words: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        output: int,
        session: bool = False,
    ) -> Forked:
        """Start a command that writes to ``output``, as the leader of a ``session`` of its own if that is wanted."""
        request = marshal.dumps((module, list(words), str(directory), dict(environment), session))
        news, tell = os.pipe()
        with self._lock:
            socket.send_fds(self._started(), [request], [output, tell])
        os.close(tell)
        return Forked(news)

    def close(self) -> None:
        """End the process; the next command starts it anew, with the code that is there then."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
            self._socket = None

    def _started(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                subprocess.Popen(
                    [sys.executable, __file__, str(theirs.fileno())],
                    env=self._environment,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                )
        return self._socket


_FORKS = ForkServer({**os.environ, "PYTHONPATH": _REPOSITORY})


def main(argv: Sequence[str]) -> int:
    """Serve whoever holds the other end of the socket ``argv[0]``."""
    sys.path.remove(str(_TESTS))
    from pypto_build.resident.loaded import load

    load()
    loaded = _Loaded()
    with socket.socket(fileno=int(argv[0])) as owner:
        gc.collect()
        gc.freeze()
        while True:
            request, descriptors, _, _ = socket.recv_fds(owner, _LARGEST, 2)
            if not request:
                loaded.end()
                return 0
            _reap()
            if not os.fork():
                owner.close()
                _work(loaded, request, *descriptors)
            for descriptor in descriptors:
                os.close(descriptor)


class _Loaded:
    """Processes that the product forks its tools from, which serve all commands: the first that needs one starts it.

    Such a process ends when nobody holds its connection. This one holds them all, unread in a queue.
    """

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="pypto-build-tests-")
        self._queue = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    def end(self) -> None:
        """End them."""
        for each in self._queue:
            each.close()
        self._directory.cleanup()

    def share(self) -> None:
        """In a fork, which is a command: have its tools forked from the processes that all commands share."""
        from pypto_build.toolchain.forked import ForkedTools

        start, own = ForkedTools._start, set[int]()

        def start_or_share(tools: ForkedTools, environment: Mapping[str, str]) -> None:
            if id(tools) in own:  # it was closed: files have changed that the shared one has read
                return start(tools, environment)
            own.add(id(tools))
            key = repr((tools._modules, tools._log_variable, sorted(tools._variables.items()), _start(environment)))
            path = Path(self._directory.name, hashlib.sha256(key.encode()).hexdigest())
            with path.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not path.exists():
                    start(tools, environment)
                    assert tools._connection
                    socket.send_fds(self._queue[0], [b"held"], [tools._connection.fileno()])
                    path.write_text(f"{tools._since} {tools._address}")
                    tools._connection.close()
            since, tools._address = path.read_text().split(maxsplit=1)
            tools._since, tools._owner = int(since), os.getpid()
            tools._connection, tools._process = None, None

        ForkedTools._start = start_or_share  # type: ignore[assignment,method-assign]
        _fork_goldens()
        _fork_replays()


def _fork_goldens() -> None:
    """Have tools that compute data with PyTorch forked, too, though a command of a user runs one of a kind."""
    from pypto_build.proof.witness import VARIABLE
    from pypto_build.rules.machinery.steps import Step
    from pypto_build.toolchain.forked import ForkedTools
    from pypto_build.toolchain.python import own_tool

    tools, plain = ForkedTools([*_GOLDENS, "torch"], VARIABLE), Step.__init__
    commands = [(*own_tool(module), *words) for module, words in _GOLDENS.items()]

    def run(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
        status, text = tools.run(command, environment)
        if status:
            return status, text  # as a process of its own returns its errors
        sys.stdout.flush()
        os.write(1, text.encode())
        return 0, ""

    def forked(step: Step, *args: Any, **fields: Any) -> None:
        plain(step, *args, **fields)
        if any(step.action.argv[: len(words)] == words for words in commands):
            object.__setattr__(step, "spawn", run)
            object.__setattr__(step, "forks", tools)

    Step.__init__ = forked  # type: ignore[method-assign,assignment]


def _fork_replays() -> None:
    """Have replays and signatures forked, though a command of a user starts processes for one of a kind."""
    from pypto_build.proof.witness import VARIABLE
    from pypto_build.rules.machinery import prefork
    from pypto_build.rules.machinery.workspace import Workspace
    from pypto_build.rules.scenes import _FOR_MANY
    from pypto_build.toolchain.forked import ForkedTools
    from pypto_build.toolchain.python import own_tool

    tools, of_workspace = ForkedTools(_FOR_MANY, VARIABLE), Workspace.__init__
    start, forkable = prefork.start_waiting, [own_tool(module) for module in _FOR_MANY]

    def run(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
        status, text = tools.run(command, environment)
        sys.stdout.flush()
        os.write(1, text.encode())
        return status, ""

    class Waits:
        """A process that is forked when its turn comes."""

        def __init__(self, command: list[str], environment: dict[str, str]) -> None:
            self.since = tools.since(environment)
            self._command, self._environment = command, environment

        def go(self) -> tuple[int, str]:
            return run(self._command, self._environment)

        def cancel(self) -> None:
            pass

    def with_forks(workspace: Workspace, *args: Any, **fields: Any) -> None:
        of_workspace(workspace, *args, **fields)
        workspace.forks = tools

    Workspace.__init__ = with_forks  # type: ignore[method-assign,assignment]
    prefork.start_waiting = lambda command, environment: (
        Waits(command, environment) if command[:3] in forkable else start(command, environment)
    )


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _work(loaded: _Loaded, request: bytes, output: int, news: int) -> NoReturn:
    """Be the command, in this process, which ends with it."""
    from pypto_build.resident.loaded import run_command, take_over
    from pypto_build.rules.run import run_scons
    from pypto_build.toolchain.forks import status_of

    status = 1
    try:
        os.set_inheritable(news, False)
        module, words, directory, environment, session = marshal.loads(request)
        if session:
            os.setsid()  # what outlives the command is a fault
        else:
            loaded.share()
        os.write(news, _NUMBER.pack(os.getpid()))
        take_over([os.open(os.devnull, os.O_RDONLY), os.dup(output), output], environment, directory)
        if environment.get("PYTHONUNBUFFERED"):
            sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), sys.stdout.encoding, write_through=True)
        scons = module == _SCONS
        status = status_of(lambda: run_scons(words)) if scons else run_command(words, _scons)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    os.write(news, _NUMBER.pack(status & 0xFF))
    os._exit(0)


def _scons(words: Sequence[str], environment: dict[str, str]) -> int:
    from pypto_build.rules.run import run_scons

    os.environ.clear()
    os.environ.update(environment)
    return run_scons(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
