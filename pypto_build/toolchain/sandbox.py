"""Commands under bubblewrap: no network, no other processes, an empty /tmp, nothing writable but what is given."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pypto_build.toolchain import ToolchainError

_PROGRAM = "bwrap"
_TIME_LIMIT_S = 10
_SEPARATE = ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
_PLACES = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--setenv", "TMPDIR", "/tmp")


@dataclass(frozen=True)
class Sandbox:
    """Bubblewrap, which works here. `readable` are directories that commands must see even if they are below /tmp."""

    program: str
    readable: tuple[Path, ...] = ()

    def wrap(self, argv: Sequence[str], writable: Iterable[Path], *, hears_terminal: bool = False) -> list[str]:
        """The command line that runs `argv` with nothing writable but `writable`, which exists.

        One that `hears_terminal` gets Ctrl-C, and could type there: it must be ours, and keep its children from it.
        """
        session = [] if hears_terminal else ["--new-session"]
        words = [self.program, *_SEPARATE, "--die-with-parent", *session, *_PLACES]
        hidden = Path("/tmp")
        for place in sorted({*self.readable, Path(os.getcwd())}):
            if place.is_relative_to(hidden) and place != hidden and place.exists():
                words += ["--ro-bind", str(place), str(place)]
        for place in sorted(set(writable)):
            words += ["--bind", str(place), str(place)]
        return [*words, "--chdir", os.getcwd(), "--", *argv]


def find_sandbox(readable: Iterable[Path] = ()) -> Sandbox:
    """The sandbox of this machine. Raises `ToolchainError`, in one line, where there is none or it cannot work."""
    program = shutil.which(_PROGRAM)
    if program is None:
        raise ToolchainError("bubblewrap is not installed")
    found = Sandbox(program, tuple(readable))
    with tempfile.TemporaryDirectory(prefix="pypto-sandbox-") as place:
        words = found.wrap(["true"], [Path(place)])
        try:
            run = subprocess.run(words, capture_output=True, text=True, timeout=_TIME_LIMIT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolchainError(f"{program} cannot be run ({error})") from None
    if run.returncode:
        said = run.stderr.strip().splitlines() or [f"exit status {run.returncode}"]
        raise ToolchainError(f"{program} does not work here ({said[-1]})")
    return found
