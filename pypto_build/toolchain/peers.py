"""Decides which process may send requests to one of ours, which acts with the rights of this user.

An artifact's code runs in namespaces of its own, or at least cannot gain privileges, and so do its children for good. A
process that differs from this one in any of these is refused. Otherwise a kernel could leave a process behind, or start
one outside of its sandbox.
"""

from __future__ import annotations

import os
import select
import socket
import struct

#: Namespaces that separate processes.
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_PEER = struct.Struct("3i")  # process, user, group
_PEER_DESCRIPTOR = 77  # SO_PEERPIDFD, since Linux 6.5: no other process can have taken the number meanwhile


def may_ask(connection: socket.socket) -> bool:
    """Return True if the connected process belongs to this user, lives, and is confined as this process is."""
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
