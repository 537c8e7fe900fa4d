"""A real interactive shell on a terminal of its own: types keys, returns what the shell wrote."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import termios
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

_START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
_PROMPT = "ready-for-keys> "
_LIMIT_S = 60.0


class ShellSession:
    """The shell works in ``directory``; ``setup`` are lines that it reads before the first key."""

    def __init__(self, shell: str, directory: Path, setup: list[str], environment: Mapping[str, str]) -> None:
        self.shell = shell
        self._master, slave = pty.openpty()
        self._number = 0
        self._process = subprocess.Popen(
            _START[shell],
            stdin=slave, stdout=slave, stderr=slave, cwd=directory, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**environment, "TERM": "dumb" if shell != "fish" else "xterm"},
        )  # fmt: skip
        os.close(slave)
        prompt = f"function fish_prompt; printf '{_PROMPT}'; end" if shell == "fish" else f"PS1='{_PROMPT}'"
        for line in (prompt, *setup):
            self.press(line + "\r")

    def press(self, keys: str) -> str:
        """Type keys that leave an empty line behind; return all that was written until the shell has read them."""
        self._number += 1
        # A shell reads its keys in order: once it prints the mark, which is not what is typed, it has done the rest.
        os.write(self._master, f"{keys}echo end-of-''{self._number}.\r".encode())
        mark = f"end-of-{self._number}.".encode()
        written = b""
        while _PROMPT.encode() not in written.rpartition(mark)[2] or mark not in written:  # in that order
            if not select.select([self._master], [], [], _LIMIT_S)[0]:
                raise TimeoutError(written.decode(errors="replace"))
            written += os.read(self._master, 1 << 16)
        return written.decode(errors="replace")

    def __enter__(self) -> ShellSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._master)
