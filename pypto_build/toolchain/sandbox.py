"""Runs commands under bubblewrap: no network, no other processes, no local services, and only named paths are writable.

Directories in which services of the machine and of its user listen are hidden. System calls that reach services
anywhere else are refused (`facts/system_calls.py`).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pypto_build.artifact.files import read_bytes, write_bytes
from pypto_build.facts.system_calls import call_filter
from pypto_build.toolchain import ToolchainError
from pypto_build.toolchain.cache import cache_dir

_PROGRAM = "bwrap"
_TIME_LIMIT_S = 10
_SEPARATE = ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
_PLACES = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--setenv", "TMPDIR", "/tmp")
#: Directories for sockets, pipes and files of running programs: empty in a sandbox.
_HIDDEN = ("/tmp", "/run", "/var/run", "/run/lock", "/var/lock")
#: Bubblewrap reads the filter from a descriptor, which a shell opens for it.
_WITH_FILTER = ("/bin/sh", "-c", 'exec "$@" 9<"$0"')


@dataclass(frozen=True)
class Sandbox:
    """Bubblewrap, tested on this machine, with the file of its `filter`.

    `readable` are directories that commands must see even within a hidden one.
    """

    program: str
    filter: Path
    readable: tuple[Path, ...] = ()

    def wrap(self, argv: Sequence[str], writable: Iterable[Path], *, hears_terminal: bool = False) -> list[str]:
        """Return the command line that runs `argv` with write access only to the existing paths `writable`.

        A command that `hears_terminal` gets Ctrl-C, and could type into the terminal: it must be ours, and keep its
        children from it.
        """
        session = [] if hears_terminal else ["--new-session"]
        words = [*_WITH_FILTER, str(self.filter), self.program, "--seccomp", "9", *_SEPARATE, "--die-with-parent"]
        words += [*session, *_PLACES]
        hidden = _hidden()
        # With the modes that they have outside: a tool that asks for them hears the same.
        mounts = {
            directory: ["--perms", f"{os.stat(directory).st_mode & 0o7777:04o}", "--tmpfs", directory]
            for directory in hidden
            if os.path.isdir(directory)
        }
        for directory in {*map(str, self.readable), os.getcwd()}:
            for path in {directory, os.path.realpath(directory)} - hidden:
                if os.path.exists(path) and any(path.startswith(f"{above}/") for above in hidden):
                    mounts[path] = ["--ro-bind", path, path]
        seen = set(mounts) - hidden
        for path in seen:  # nothing can be mounted on a link in a directory that is mounted, nor has to be
            nearest = max((above for above in mounts if path.startswith(f"{above}/")), key=len)
            if nearest in seen:
                del mounts[path]
        mounts |= {directory: ["--bind", directory, directory] for directory in map(str, writable)}
        for directory in sorted(mounts):  # a directory before what lies in it
            words += mounts[directory]
        return [*words, "--chdir", os.getcwd(), "--", *argv]


def _hidden() -> set[str]:
    """Return the directories to hide, without links, which lead to another of them."""
    places = {*_HIDDEN, os.environ.get("XDG_RUNTIME_DIR", "")}
    return {path for path in places if os.path.isabs(path) and os.path.realpath(path) == path != "/"}


def find_sandbox(readable: Iterable[Path] = ()) -> Sandbox:
    """Return the sandbox of this machine. Raises `ToolchainError`, in one line, if there is none or it does not
    work.
    """
    program = shutil.which(_PROGRAM)
    if program is None:
        raise ToolchainError("bubblewrap is not installed")
    sandbox = Sandbox(program, _filter_file(), tuple(readable))
    with tempfile.TemporaryDirectory(prefix="pypto-sandbox-") as directory:
        words = sandbox.wrap(["true"], [Path(directory)])
        try:
            run = subprocess.run(words, capture_output=True, text=True, timeout=_TIME_LIMIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolchainError(f"{program} cannot be run ({error})") from None
    if run.returncode:
        output = run.stderr.strip().splitlines() or [f"exit status {run.returncode}"]
        raise ToolchainError(f"{program} does not work here ({output[-1]})")
    return sandbox


def _filter_file() -> Path:
    """Return the file with the filter of system calls. Raises `ToolchainError` if it cannot be created."""
    data = call_filter()
    if not data:
        raise ToolchainError(f"the system calls of the processor {os.uname().machine} are not known to the sandbox")
    file = cache_dir() / "sandbox" / f"{hashlib.sha256(data).hexdigest()[:16]}.bpf"
    try:
        if not file.is_file() or read_bytes(file) != data:
            write_bytes(file, data)
    except OSError as error:
        raise ToolchainError(f"{file} cannot be written ({error.strerror})") from None
    return file
