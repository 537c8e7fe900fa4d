"""Preloaded process for the next round's replay, kept by processes that are forked for each round.

``NEXT`` is that process, for the forks of the process that keeps it. Each fork tells what the next round will need.
"""

from __future__ import annotations

import gc
import json
import os
import select
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from pypto_build import terminal
from pypto_build.proof.action import plain
from pypto_build.proof.prestart import Waiting
from pypto_build.proof.witness import VARIABLE
from pypto_build.rules.machinery.actions import WaitingTool
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.rules.targets import STATUS_VARIABLE
from pypto_build.toolchain import forks
from pypto_build.toolchain.prefork import AT_WORK
from pypto_build.toolchain.python import own_environment, own_tool
from pypto_build.trace import VARIABLE as TRACE
from pypto_build.turn import VARIABLE as TURN

# Time limit for the start of a fork: its parent may still be loading.
_THERE_S = 20.0
_ENDED_S = 5.0
# After so many rounds a new one is started: each fork unloads by itself what was built since.
_ROUNDS = 50
# Variables that differ between runs of a command.
_OWN = ("TMPDIR", VARIABLE, TRACE, STATUS_VARIABLE)
_KILLED = 137


class Kept(msgspec.Struct, frozen=True):
    """The command that a preloaded process is for, with its environment (without ``_OWN``) and its artifact."""

    module: str = ""
    words: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    artifact: str = ""
    platform: str = ""


class PreforkServer:
    """A process that has loaded all that the command ``kept`` needs, and is forked for each run of it."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.since = time.time_ns()
        self.rounds = 0
        self._directory = tempfile.mkdtemp(prefix="pypto-prefork-")
        log = Path(self._directory, "log")
        log.touch()
        variables = {"TMPDIR": self._directory, VARIABLE: str(log)}
        self._process, self._connection = forks.start(
            "pypto_build.toolchain.prefork",
            [VARIABLE, str(self.since), f"{kept.module}.prefork", *kept.words],
            own_environment(dict(kept.environment)) | variables,
            output=subprocess.DEVNULL,
        )

    @property
    def is_worn(self) -> bool:
        """Return True if the process has ended, or has served the maximal time. Only its parent process may call
        this.
        """
        return self.rounds >= _ROUNDS or self._process.poll() is not None

    def fork(self, environment: Mapping[str, str]) -> Waiting:
        """Return a fork that waits for its turn. Raises `OSError`."""
        return _Fork(self._connection, self.since, environment)

    def close(self) -> None:
        """End the process, and wait until it is gone."""
        self._connection.close()
        try:
            self._process.wait(_ENDED_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


class _Fork:
    """One run: a process that is not a child of this one, so it reports its state by a pipe."""

    def __init__(self, connection: socket.socket, since: int, environment: Mapping[str, str]) -> None:
        self.since = since
        turn, self._turn = os.pipe()
        request = {"environment": dict(environment), "directory": os.getcwd(), "group": os.getpgrp(), "turn": TURN}
        try:
            self._messages = forks.send(connection, json.dumps(request).encode(), [0, 1, 2, turn], socket.MSG_DONTWAIT)
        except OSError:
            os.close(self._turn)
            raise
        finally:
            os.close(turn)

    def go(self) -> tuple[int, str] | None:
        """Let the process work; None if it has ended, or refuses."""
        with terminal.progress(None):
            terminal.step_aside()
            try:
                if not self._hear(_THERE_S):
                    return None
                os.write(self._turn, b"1")
                if self._hear(None) != AT_WORK:
                    return None
                status = self._hear(None)
                return (status[0] if status else _KILLED), ""
            except BrokenPipeError:
                return None
            finally:
                os.close(self._turn)
                os.close(self._messages)

    def cancel(self) -> None:
        """End the process."""
        os.close(self._turn)
        while self._hear(_ENDED_S):
            pass
        os.close(self._messages)

    def _hear(self, seconds: float | None) -> bytes:
        """Return the next message of the process; empty if it has ended, or is too slow."""
        ready, _, _ = select.select([self._messages], [], [], seconds)
        return os.read(self._messages, 1) if ready else b""


class _State:
    """The current preloaded process, and the command that the next one should be started for."""

    def __init__(self) -> None:
        self.server: PreforkServer | None = None
        self.upcoming = Kept()
        self.workspace: Workspace | None = None


NEXT = _State()


def want(command: list[str], environment: Mapping[str, str], artifact: Path, platform: str) -> None:
    """Record that the next round will most likely run this command again, on this artifact."""
    words = [*command, *environment, *environment.values(), str(artifact)]
    kept = msgspec.structs.replace(_kept(command, environment), artifact=str(artifact), platform=platform)
    NEXT.upcoming = kept if all(plain(word) == word for word in words) else Kept()


def start_waiting(command: list[str], environment: dict[str, str]) -> Waiting:
    """Return a process for ``command`` that waits for its turn: a fork of the kept one, if that is for this command."""
    server = NEXT.server
    kept = _kept(command, environment)
    if server is not None and (server.kept.words, server.kept.environment) == (kept.words, kept.environment):
        with suppress(OSError):
            return server.fork(environment)
    return WaitingTool(command, environment)


def take_workspace(opened: Callable[[], Workspace]) -> Workspace:
    """Return the prefetched workspace, renewed; else a new one from ``opened``."""
    ahead, NEXT.workspace = NEXT.workspace, None
    return (ahead and ahead.renewed()) or opened()


def run_precheck(precheck: Callable[[], None]) -> None:
    """Check in advance the files that the next round will check; errors are reported there."""
    gc.unfreeze()
    try:
        precheck()
    except Exception:
        NEXT.workspace = None
    gc.freeze()  # else a fork's collector would write to all that it has in common with this process


def keep(kept: Kept) -> None:
    """Keep a preloaded process for the command ``kept``; end one for another command."""
    server = NEXT.server
    if server is not None:
        server.rounds += 1
    if not kept.words or (server is not None and server.kept == kept and not server.is_worn):
        return
    if server is not None:
        server.close()
        NEXT.server = None
    with suppress(OSError):
        NEXT.server = PreforkServer(kept)


def _kept(command: list[str], environment: Mapping[str, str]) -> Kept:
    """Return a command of ours in the form that rounds use to report it."""
    tool = len(own_tool("")) - 1
    own = sorted(pair for pair in environment.items() if pair[0] not in _OWN)
    return Kept(command[tool], tuple(command[tool + 1 :]), tuple(own))
