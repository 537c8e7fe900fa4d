"""The machines that this package supports. Python 3.6 can read this file, so that it can print that it is too old."""

import os
import sys

#: The oldest glibc and the oldest Python that are tested.
OLDEST_GLIBC = (2, 31)
OLDEST_PYTHON = (3, 10)
PROCESSORS = ("x86_64", "aarch64")
_SUPPORTED = "it needs Linux on x86-64 or aarch64 with glibc 2.31 or newer, and a 64-bit Python 3.10 or newer"
#: Remedies by `sys.platform`.
_WAYS = {"win32": "use WSL 2", "cygwin": "use WSL 2", "darwin": "use a Linux container or virtual machine"}


def unsupported() -> str:
    """Return in one line why this machine is not supported and what to do; empty if it is supported."""
    reason, remedy = _obstacle()
    return f"pypto-build: error: {reason}; {_SUPPORTED}: {remedy}" if reason else ""


def _obstacle() -> "tuple[str, str]":
    if sys.platform != "linux":
        return f"the operating system is {sys.platform}", _WAYS.get(sys.platform, "use a Linux machine")
    if sys.maxsize < 1 << 32:
        return f"{sys.executable} is a Python of 32 bits", "install a 64-bit Python"
    if sys.version_info[:2] < OLDEST_PYTHON:
        return f"{sys.executable} is Python {sys.version_info[0]}.{sys.version_info[1]}", "install a newer Python"
    processor = os.uname().machine
    if processor not in PROCESSORS:
        return f"the processor is {processor}", "use another machine"
    version = _glibc()
    if version is None:
        return (
            "the C library is not glibc (musl?)",
            "use an image of Debian, Ubuntu or openEuler, not Alpine",
        )
    if version < OLDEST_GLIBC:
        return f"glibc is {version[0]}.{version[1]}", "use a newer distribution, or a container of one"
    return "", ""


def _glibc() -> "tuple[int, int] | None":
    """Return the version of glibc; None for another C library."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        major, minor = version.split(".")[:2]
        return (int(major), int(minor)) if name == "glibc" else None
    except (ValueError, OSError):  # musl knows no such name
        return None
