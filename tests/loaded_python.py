"""A Python for tests that has loaded PyTorch: its scripts run in forks, since loading takes longer than most of them.

`interpreter` returns a program that is called as ``python SCRIPT ARGUMENTS``. A script gets the arguments, environment,
directory and descriptors of its caller, and dies with it. Other command lines run as processes of the usual Python.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NoReturn

_LARGEST = 1 << 18
_DESCRIPTORS = 32
#: The client: it imports little, and ends as the script did.
_CLIENT = """#!{python} -ISE
import json, os, signal, socket, sys
words = sys.argv[1:]
if not words or words[0].startswith("-"):
    os.execv({python!r}, [{python!r}, *words])
numbers = []
for number in map(int, os.listdir("/proc/self/fd")):
    try:
        os.fstat(number)
        numbers.append(number)
    except OSError:
        pass
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({address!r})
    request = json.dumps([words, dict(os.environ), os.getcwd(), numbers])
    socket.send_fds(server, [request.encode(errors="surrogateescape")], numbers)
    status = int(server.recv(16))
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


@cache
def interpreter() -> str:
    """Return the path of the program; the process that it asks ends with this one."""
    directory = tempfile.TemporaryDirectory(prefix="pypto-build-tests-")
    _kept.append(directory)
    address, program = os.path.join(directory.name, "socket"), Path(directory.name, "python")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        ours, theirs = socket.socketpair()
        _kept.append(ours)
        with theirs:
            descriptors = [listener.fileno(), theirs.fileno()]
            words = [sys.executable, __file__, *map(str, descriptors)]
            subprocess.Popen(words, cwd="/", stdin=subprocess.DEVNULL, pass_fds=descriptors)
    program.write_text(_CLIENT.format(python=sys.executable, address=address))
    program.chmod(0o755)
    return str(program)


#: What lives as long as this process.
_kept: list[object] = []


def main(listener: socket.socket, owner: socket.socket) -> None:
    """Serve until the owner's end closes."""
    import torch  # noqa: F401 - what scripts import

    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while listener in select.select([listener, owner], [], [])[0]:
        with listener.accept()[0] as client:
            if not os.fork():
                listener.close()
                owner.close()
                _attend(client)


def _attend(client: socket.socket) -> NoReturn:
    """Run the client's script in another fork and tell the client how it ended; end it when the client is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, descriptors, _, _ = socket.recv_fds(client, _LARGEST, _DESCRIPTORS)
    script = os.fork()
    if not script:
        _run(client, json.loads(request.decode(errors="surrogateescape")), descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    process = os.pidfd_open(script)
    if process not in select.select([process, client.fileno()], [], [])[0]:
        with suppress(ProcessLookupError):
            os.killpg(script, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(script, 0)[1])
    with suppress(OSError):
        client.send(str(status).encode())
    os._exit(0)


def _run(client: socket.socket, request: tuple[list[str], dict[str, str], str, list[int]], held: list[int]) -> NoReturn:
    """Be ``python SCRIPT ARGUMENTS``, in this process."""
    status = 1
    try:
        os.setsid()
        client.close()
        words, environment, directory, numbers = request
        top = max(*numbers, *held) + 1
        moved = [os.dup2(descriptor, top + place) for place, descriptor in enumerate(held)]
        os.closerange(3, top)
        for descriptor, number in zip(moved, numbers, strict=True):
            os.dup2(descriptor, number)
        os.closerange(max(*numbers, 2) + 1, top + len(moved))
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(directory)
        tempfile.tempdir = None
        sys.argv = words
        paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
        sys.path[:] = [os.path.dirname(os.path.abspath(words[0])), *paths, *sys.path[1:]]
        with suppress(ImportError):
            __import__("sitecustomize")
        runpy.run_path(words[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    with suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status & 0xFF)


if __name__ == "__main__":
    main(*(socket.socket(fileno=int(word)) for word in sys.argv[1:3]))
