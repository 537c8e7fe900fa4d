"""Fork server for tools that take longer to load than to work: it loads them once and is forked for each command.

python -m pypto_build.toolchain.forked DESCRIPTOR LISTENER LOG_VARIABLE MODULE...

The server is the child of the process that needs it, and ends with it. Any process of the user that knows its address
may have commands run (`may_ask`). A request carries the command's words, its environment, its directory and the stream
that it writes to. The reply is a byte when the command begins, then its exit status; the status is missing if the
command was killed. A command is killed when no process waits for its status any more.

The library that watches tools writes the files that they read to the log that LOG_VARIABLE names. A command's log
begins with the files that were read to load the tools.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from pypto_build.toolchain import forks
from pypto_build.toolchain.python import own_environment, own_tool, run_tool

# Decides which process may send requests to one of ours, which acts with the rights of this user.
# An artifact's code runs in namespaces of its own, or at least cannot gain privileges, and so do its children for
# good. A process that differs from this one in any of these is refused. Otherwise a kernel could leave a process
# behind, or start one outside of its sandbox.

#: Namespaces that separate processes.
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_PEER = struct.Struct("3i")  # process, user, group
_PEER_DESCRIPTOR = 77  # SO_PEERPIDFD, since Linux 6.5: no other process can have taken the number meanwhile


def may_ask(connection: socket.socket) -> bool:
    """Return True if the connected process belongs to this user, is alive, and has the same namespaces and
    privileges as this process.
    """
    process, user, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    if user != os.getuid() or process <= 0:  # 0: in a namespace that is not seen from here
        return False
    try:
        handle = _handle(connection, process)
        try:
            return _containment(str(process)) == _containment("self") and not select.select([handle], [], [], 0)[0]
        finally:
            os.close(handle)
    except OSError:  # it is gone, or may not be looked at
        return False


def _handle(connection: socket.socket, process: int) -> int:
    try:
        return connection.getsockopt(socket.SOL_SOCKET, _PEER_DESCRIPTOR)
    except OSError:
        return os.pidfd_open(process)


def _containment(process: str) -> tuple[list[str], bytes]:
    """Return the namespaces of a process, and whether it can gain privileges."""
    links = [os.readlink(f"/proc/{process}/ns/{name}") for name in NAMESPACES]
    with open(f"/proc/{process}/status", "rb") as file:
        return links, file.read().partition(b"\nNoNewPrivs:")[2].partition(b"\n")[0]


#: The function of the watching library that changes its log.
_REDIRECT = "pypto_witness_redirect"
_KILLED = 137
#: The byte that tells that a command begins.
_BEGUN = b"B"
#: The variable with the address for a process that may have commands run.
ADDRESS = "PYPTO_FORKED_TOOLS"
#: Requests that wait until the tools are loaded.
_WAITING = 128
#: Ends the part of a log that tells what was read before the command was asked for.
EARLIER = b"Z\t\0"


class ForkedTools:
    """Runs commands that are one of our tools (`own_tool`) in forks of one process, which starts with the first.

    ``run`` may be called from several threads. A command that cannot be forked runs as a process of its own. A fork of
    the process that holds this object starts its own server. ``variables`` are added to the server's environment.
    """

    def __init__(
        self, modules: Sequence[str], log_variable: str = "", variables: Mapping[str, str] | None = None
    ) -> None:
        self._modules, self._log_variable = tuple(modules), log_variable
        self._variables = dict(variables or {})
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._since = 0
        self._connection: socket.socket | None = None
        self._address, self._owner = "", 0
        #: Directories of the servers' own files, which are no inputs of a command.
        self.directories: set[str] = set()

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
        """Run ``command``; return its exit status and its output."""
        tool = own_tool(command[2]) if len(command) > 2 else []
        if not tool or list(command[:3]) != tool or command[2] not in self._modules:
            return run_tool(command, environment)
        output, write_output = os.pipe()
        with open(output, "rb") as printed:
            try:
                with open(write_output, "wb") as stream:
                    status = ask(self.address(environment), command[2:], environment, stream.fileno())
            except OSError:
                return run_tool(command, environment)
            text = printed.read().decode(errors="replace")
            try:
                return wait(status), text
            except OSError:  # the process ended before it took the request
                return run_tool(command, environment)

    def address(self, environment: Mapping[str, str]) -> str:
        """Return the address of the server's socket; the server starts if there is none.

        A new server is watched if ``environment`` has the log variable. Raises `OSError` if it cannot be started.
        """
        with self._lock:
            if self._owner != os.getpid():
                self._start(environment)
                self.directories.add(os.path.dirname(self._address))
            return self._address

    def since(self, environment: Mapping[str, str]) -> int:
        """Return the time at which the server started, by the system's clock; 0 if it cannot be started.

        This starts the server if necessary.
        """
        with suppress(OSError):
            self.address(environment)
            return self._since
        return 0

    def close(self) -> None:
        """End the server; commands that were forked from it continue."""
        with self._lock:
            if self._connection is not None and self._process is not None and self._owner == os.getpid():
                self._connection.close()
                self._process.wait()
            self._connection, self._process, self._owner = None, None, 0

    def _start(self, environment: Mapping[str, str]) -> None:
        directory = tempfile.mkdtemp(prefix="pypto-forked-")
        try:
            self._start_in(directory, environment)
        except OSError:
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def _start_in(self, directory: str, environment: Mapping[str, str]) -> None:
        variables = own_environment(environment) | self._variables | {"TMPDIR": directory}
        if self._log_variable in environment:
            log = Path(directory, "log")
            log.touch()
            variables[self._log_variable] = str(log)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(address := os.path.join(directory, "socket"))
            listener.listen(_WAITING)
            words = [str(listener.fileno()), self._log_variable, *self._modules]
            self._since = time.time_ns()
            self._process, self._connection = forks.start(__name__, words, variables, inherited=[listener.fileno()])
        self._address, self._owner = address, os.getpid()


def ask(address: str, words: Sequence[str], environment: Mapping[str, str], output: int) -> int:
    """Request the run of a module with its ``words``, which writes to ``output``.

    Return a descriptor for `wait`, from which the command's status is read. Raises `OSError` if the server does not
    answer.
    """
    request = json.dumps([list(words), dict(environment), os.getcwd()]).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(address)
        return forks.send(connection, request, [output])


def wait(report: int) -> int:
    """Return the status of a command from the descriptor that `ask` gave. Raises `OSError` if it never began."""
    with open(report, "rb") as news:
        begun, *status = news.read() or b"\0"
    if bytes([begun]) != _BEGUN:
        raise OSError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
    return status[0] if status else _KILLED


def main(argv: Sequence[str]) -> int:
    """Serve until the owner closes its end and no request is left."""
    end, listener = (socket.socket(fileno=int(word)) for word in argv[:2])
    log_variable, modules = argv[2], argv[3:]
    try:
        for name in modules:
            _load(name)
        gc.freeze()  # no fork goes through what is loaded, to find nothing to collect
        log = open_log(log_variable)
        signal.signal(signal.SIGCHLD, _reap)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the caller reports the interrupt
        while listener in select.select([end, listener], [], [])[0]:
            with listener.accept()[0] as connection:
                if not may_ask(connection):
                    continue
                with forks.request(connection, 2) as (request, descriptors):
                    if descriptors and os.fork() == 0:
                        for ours in (connection, listener, end):
                            ours.close()
                        _work(request, log_variable, log, *descriptors)
    finally:  # the process that started it may be gone
        shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
    return 0


def _reap(*_: object) -> None:
    """Wait for the commands that have ended, so that their processor time counts as that of this process's children."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _load(name: str) -> ModuleType:
    """Import and return the module that ``python -m NAME`` runs."""
    module = importlib.import_module(name)
    main = f"{name}.__main__"
    return importlib.import_module(main) if hasattr(module, "__path__") and find_spec(main) else module


def _work(request: bytes, log_variable: str, log: int, output: int, report: int) -> NoReturn:
    """Run the command in this process, which ends with it."""

    def command() -> object:
        os.write(report, _BEGUN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.set_inheritable(report, False)
        threading.Thread(target=_end_unless_waited_for, args=(report,), daemon=True).start()
        words, environment, directory = json.loads(request)
        become(words, environment, directory, log_variable, log)
        return _load(words[0]).main(words[1:])

    forks.do(command, report)


def _end_unless_waited_for(report: int) -> None:
    """End this process when no process holds the other end of a pipe."""
    waiting = select.poll()
    waiting.register(report, 0)  # what is told of anyway: that it has no reader
    waiting.poll()
    os._exit(_KILLED)


def become(
    words: Sequence[str], environment: Mapping[str, str], directory: str, log_variable: str, before: int
) -> None:
    """Turn this process into a command: take over its arguments, environment and directory, and be observed as that
    command.

    ``before`` is the log of the process that this one was forked from (`open_log`).
    """
    _be_watched(before, environment.get(log_variable, ""))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    tempfile.tempdir = None
    sys.argv = list(words)


def open_log(log_variable: str) -> int:
    """Return a descriptor of this process's log, -1 if there is none. The log's file may no longer exist when a fork
    reads it.
    """
    path, redirect = os.environ.get(log_variable, ""), _redirect()
    if not path or redirect is None:
        return -1
    redirect(os.fsencode(os.devnull))  # to open it is our own business
    log = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    redirect(os.fsencode(path))
    return log


def _be_watched(before: int, log: str) -> None:
    """Log all further reads to ``log``, which begins with the files that were read ``before``."""
    redirect = _redirect()
    if before < 0 or not log or redirect is None:
        return
    redirect(os.fsencode(os.devnull))  # what follows is our own business
    with open(log, "ab") as file:
        file.write(os.pread(before, os.fstat(before).st_size, 0) + EARLIER)
    os.close(before)
    redirect(os.fsencode(log))


def _redirect() -> Callable[[bytes], object] | None:
    return getattr(ctypes.CDLL(None), _REDIRECT, None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
