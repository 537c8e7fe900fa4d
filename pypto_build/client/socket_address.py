"""The socket on which a command finds the resident process: one for each user, version and environment.

The socket's name includes all state that no message can carry, so commands with different state use different
processes. It imports few modules of the standard library, because every command pays for these imports.
"""

from __future__ import annotations

import _socket
import os
import resource
import stat
import struct
import sys
import zlib

#: Set to 0, commands do without a resident process; it must not be there in automation either.
VARIABLE = "PYPTO_BUILD_SERVER"

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
#: Beginnings of the names of variables that decide how Python starts, and where it looks when modules are loaded.
START_VARIABLES = (
    "PYTHON",
    "LC_",
    "LANG",
    "LD_",
    "MALLOC_",
    "GLIBC_TUNABLES",
    "TZ",
    "VIRTUAL_ENV",
    "COVERAGE_",
    "ASAN_",
)
_PEER = struct.Struct("3i")  # process, user, group


def may_use_server() -> bool:
    """Return whether this command may use a resident process; False in CI, where the job would wait for that process
    to end.
    """
    chosen = os.environ.get(VARIABLE, "")
    return chosen not in ("0", "no", "off", "false") and (bool(chosen) or not os.environ.get("CI"))


def directory() -> str | None:
    """Return this user's private directory of sockets; None where it cannot be created."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    path = f"{base}/pypto-build" if _is_mine(base) else f"/tmp/pypto-build-{os.getuid()}"
    try:  # noqa: SIM105
        os.mkdir(path, 0o700)
    except OSError:  # most likely it is there
        pass
    return path if _is_mine(path) else None


def _is_mine(path: str) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def address(sockets: str, situation: str) -> str:
    """Return the path of the socket in ``sockets`` for processes in this situation (see `describe_situation`)."""
    data = situation.encode(errors="surrogateescape")
    return f"{sockets}/{zlib.crc32(data):08x}{zlib.adler32(data):08x}"


def describe_situation() -> str:
    """Return the process state that no message can carry: only processes that agree in it may share a resident
    process.
    """
    environment = {name: value for name, value in os.environ.items() if name.startswith(START_VARIABLES)}
    return repr(
        (
            sys.version,
            sys.executable,
            sys.flags,
            _PACKAGE,
            sorted(environment.items()),
            os.getresuid(),
            os.getresgid(),
            sorted(os.getgroups()),
            os.nice(0),
            sorted(os.sched_getaffinity(0)),
            [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")],
            [_read("/proc/self/cgroup"), _read("/proc/self/oom_score_adj"), _read("/proc/self/attr/current")],
            _read("/proc/self/status").partition(b"\nNoNewPrivs:")[2].partition(b"\n")[0],
            [_link(f"/proc/self/ns/{name}") for name in ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")],
            _link("/proc/self/root"),
        )
    )


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def same_user(connection: _socket.socket) -> bool:
    """Return whether the process at the other end belongs to this user."""
    peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _PEER.size)
    return bool(_PEER.unpack(peer)[1] == os.getuid())
