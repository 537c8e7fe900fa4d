"""What a job tells the batch when it ends: one message, through a pipe."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

import msgspec
import SCons.Node
import SCons.Node.Alias
from SCons.Script import COMMAND_LINE_TARGETS

from pypto_build.facts.outcomes import Outcome
from pypto_build.replay.verdict import EXIT_STATUS
from pypto_build.rules.machinery.verdicts import Verdicts
from pypto_build.rules.machinery.workspace import Workspace
from pypto_build.toolchain.forks import flush_streams


class Told(msgspec.Struct):
    """How a job ended.

    ``status`` is the exit status that `pypto-build` would have; ``message`` a line on what is wrong, ``command`` what
    to type for its cause. ``outcomes`` are those of its replays, ``built`` the number of commands that ran.
    """

    status: int
    message: str = ""
    command: str = ""
    outcomes: list[Outcome] = []
    built: int = 0


def end_job(writer: int, workspaces: Sequence[Workspace], verdicts: Verdicts) -> None:
    """Say through a pipe what came of the job that this process does, and end it; the batch may be gone."""
    from pypto_build.rules.outcomes import outcomes_of

    outcomes = [outcome for workspace in workspaces for outcome in outcomes_of(workspace).replays]
    command = next((command for workspace in workspaces for command in workspace.progress.unexplained), "")
    built = sum(len(workspace.progress.renewed) for workspace in workspaces)
    status = verdicts.status or (0 if _is_done() else EXIT_STATUS["usage_error"])
    with suppress(OSError), open(writer, "wb") as stream:
        stream.write(msgspec.msgpack.encode(Told(status, verdicts.message, command, outcomes, built)))
    flush_streams()
    os._exit(0)


def _is_done() -> bool:
    """Whether SCons came to the end of all that was asked for. If it did not, its log says why."""
    nodes = map(SCons.Node.Alias.default_ans.lookup, map(str, COMMAND_LINE_TARGETS))
    return all(node is not None and node.get_state() in (SCons.Node.executed, SCons.Node.up_to_date) for node in nodes)


def heard(data: bytes) -> Told | None:
    """What a job told; None if it did not come so far."""
    try:
        return msgspec.msgpack.decode(data, type=Told) if data else None
    except msgspec.MsgspecError:
        return None
