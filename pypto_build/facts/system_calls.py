"""The seccomp filter for an artifact's code: it refuses the system calls that reach local services of the user.

UNIX sockets lead to agents, D-Bus, container engines and this package's own processes. These do what a client requests,
outside of any sandbox. Network sockets are left to the network namespace. Pairs of connected sockets are allowed where
they can be connected to nothing else. `io_uring` makes sockets that no filter sees; keyrings are the user's.
"""

from __future__ import annotations

import errno
import os
import struct
from typing import NamedTuple


class _Numbers(NamedTuple):
    socket: int
    socketpair: int
    keys: tuple[int, int, int]  # add_key, request_key, keyctl
    seccomp: int


#: By machine: the number of its instruction set in audit records, and the numbers of system calls.
_MACHINES = {
    "x86_64": (0xC000003E, _Numbers(socket=41, socketpair=53, keys=(248, 249, 250), seccomp=317)),
    "aarch64": (0xC00000B7, _Numbers(socket=198, socketpair=199, keys=(217, 218, 219), seccomp=277)),
}
_IO_URING_SETUP = 425
_X32 = 0x40000000  # calls of x86_64 by other numbers
_FAMILIES = (2, 10)  # AF_INET, AF_INET6
_PAIRS = (1, 5)  # SOCK_STREAM, SOCK_SEQPACKET
_TYPE_MASK = 0xF

# Classic BPF: an instruction is operation, jump where true, jump where false, value.
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in what the filter sees of a call
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000

_NO_NEW_PRIVILEGES = 38  # of prctl
_SET_FILTER, _ALL_THREADS, _ALLOW_SPECULATION = 1, 1, 4  # of seccomp

Instruction = tuple[int, int, int, int]


def call_filter(machine: str = os.uname().machine) -> bytes:
    """Return the seccomp filter for this machine, as `struct sock_filter`s; empty for a machine that is not known."""
    if machine not in _MACHINES:
        return b""
    architecture, numbers = _MACHINES[machine]
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER),
    ]  # fmt: skip
    program += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)] if machine == "x86_64" else []
    for number in numbers.keys:
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | errno.EPERM)]
    program += [(_EQUAL, 0, 1, _IO_URING_SETUP), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    program += _only(numbers.socket, _FIRST, _FAMILIES, errno.EAFNOSUPPORT)
    program += _only(numbers.socketpair, _SECOND, _PAIRS, errno.EAFNOSUPPORT, _TYPE_MASK)
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def refuse_calls() -> None:
    """Prevent all threads of this process, and its children, from gaining privileges and from making refused system
    calls.
    """
    import ctypes

    class Program(ctypes.Structure):
        _fields_ = (("count", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    libc, data = ctypes.CDLL(None), call_filter()
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if data:
        instructions = ctypes.create_string_buffer(data, len(data))
        program = Program(len(data) // 8, ctypes.addressof(instructions))
        number = _MACHINES[os.uname().machine][1].seccomp
        libc.syscall(number, _SET_FILTER, _ALL_THREADS | _ALLOW_SPECULATION, ctypes.byref(program))


def _only(number: int, argument: int, values: tuple[int, ...], error: int, mask: int = 0xFFFFFFFF) -> list[Instruction]:
    """Return instructions that allow a call if its masked argument is one of `values`; the call number is loaded
    before and after.
    """
    count = len(values)
    tests = [(_EQUAL, count - index, 0, value) for index, value in enumerate(values)]
    ends = [(_RETURN, 0, 0, _ERROR | error), (_RETURN, 0, 0, _ALLOW)]
    body = [(_LOAD, 0, 0, argument), (_AND, 0, 0, mask), *tests, *ends]
    return [(_EQUAL, 0, len(body), number), *body]
