"""Runs one command to its end, whatever that takes: a time limit, a group of processes of its own, none left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.forked import Forked, ForkServer

MARK = "TRUST_COMMAND"  # every process that a command starts has it in its environment
LONGEST_S = 400.0


@dataclass(frozen=True, repr=False)
class Done:
    """The end of a command and its output; ``left`` are processes that outlived it and had to be killed."""

    words: tuple[str, ...]
    status: int
    output: str
    seconds: float
    late: bool = False
    left: tuple[str, ...] = ()

    def __str__(self) -> str:
        end = "did not end in time" if self.late else f"status {self.status}"
        left = f"\nleft running: {', '.join(self.left)}" if self.left else ""
        return f"$ {' '.join(self.words)}\n{self.output}[{end}, {self.seconds:.1f} s]{left}"

    __repr__ = __str__  # what a test that fails shows


class Command:
    """A command that runs: its lines as they come, and the ways to end it."""

    def __init__(
        self,
        words: Sequence[str],
        directory: Path,
        environment: Mapping[str, str],
        see: Callable[[str], bool] | None = None,
        forks: ForkServer | None = None,
    ) -> None:
        self.words = tuple(words)
        self.lines: list[str] = []
        self._see = see
        self._mark = uuid.uuid4().hex
        self._begun = time.monotonic()
        printed, output = os.pipe()
        self._process = _start(self.words, directory, {**environment, MARK: self._mark}, output, forks)
        os.close(output)
        _tell_guard(f"+{self._process.pid}")
        self._reader = threading.Thread(target=self._read, args=(printed,), daemon=True)
        self._reader.start()

    def _read(self, printed: int) -> None:
        with open(printed, errors="replace", encoding="utf-8") as stream:
            for line in stream:
                self.lines.append(line)
                if self._see and self._see(line):
                    self.kill()

    @property
    def output(self) -> str:
        """Return the output so far."""
        return "".join(self.lines)

    @property
    def running(self) -> bool:
        """Return True while the command runs."""
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the whole group of processes."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """SIGKILL to the whole group of processes."""
        self.send(signal.SIGKILL)

    def end(self, longest_s: float = LONGEST_S) -> Done:
        """Wait for the end; what goes on for ``longest_s`` from now, or outlives the command, is killed."""
        late = False
        try:
            self._process.wait(longest_s)
        except subprocess.TimeoutExpired:
            late = True
            self.kill()
            self._process.wait()
        left = _end_those_left(self._mark, self._process.pid)
        _tell_guard(f"-{self._process.pid}")
        self._reader.join(10)
        seconds = time.monotonic() - self._begun
        return Done(self.words, self._process.wait(), self.output, seconds, late, left)


def _start(
    words: Sequence[str], directory: Path, environment: Mapping[str, str], output: int, forks: ForkServer | None
) -> subprocess.Popen[bytes] | Forked:
    """Start a command in a session of its own: as a fork where that is the same, since loading takes most of it."""
    if forks and words[:2] == (sys.executable, "-m") and forks.serves(words[2], environment):
        return forks.start(words[2], words[3:], directory, environment, output, session=True)
    return subprocess.Popen(
        words,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


_guards: dict[int, subprocess.Popen[str]] = {}


def _tell_guard(line: str) -> None:
    """Tell the guard of this process, which ends commands that outlive it."""
    if os.getpid() not in _guards:
        program = Path(__file__).with_name("guard.py")
        _guards[os.getpid()] = subprocess.Popen(
            [sys.executable, program], stdin=subprocess.PIPE, text=True, start_new_session=True
        )
    stream = _guards[os.getpid()].stdin
    assert stream is not None
    stream.write(f"{line}\n")
    stream.flush()


def run(
    words: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    longest_s: float = LONGEST_S,
    see: Callable[[str], bool] | None = None,
    forks: ForkServer | None = None,
) -> Done:
    """Run a command to its end; it is killed at the first line for which ``see`` is true."""
    command = Command(words, directory, environment, see, forks)
    try:
        return command.end(longest_s)
    except BaseException:
        command.kill()
        command.end(1)
        raise


def wait_for(condition: Callable[[], object], longest_s: float = 300.0) -> bool:
    """Wait until ``condition`` holds; whether it does."""
    deadline = time.monotonic() + longest_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


def goes_on(process: int) -> bool:
    """Return True if a process exists and has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _end_those_left(mark: str, session: int, patience_s: float = 5.0) -> tuple[str, ...]:
    """The processes of a command that go on for ``patience_s`` though it ended; they are killed."""
    if wait_for(lambda: not _of_command(mark, session), patience_s):
        return ()
    left = _of_command(mark, session)
    for process in left:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return tuple(left.values())


def _of_command(mark: str, session: int) -> dict[int, str]:
    """The processes that are of a session, or whose environment has ``mark``, by number, with their command lines."""
    processes = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                state, _, _, of_session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                here = int(of_session) == session and state != "Z"
                if here or f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    processes[int(entry.name)] = line.strip()
    return processes
