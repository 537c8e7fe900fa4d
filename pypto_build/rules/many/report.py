"""The report of a job to the batch at its end: one message, through a pipe."""

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


class JobReport(msgspec.Struct):
    """The end of a job.

    ``status`` is the exit status that `pypto-build` would have; ``message`` is a line about the fault. ``command`` is
    the command that finds its cause. ``outcomes`` are those of its replays, ``built`` the number of commands that ran.
    """

    status: int
    message: str = ""
    command: str = ""
    outcomes: list[Outcome] = []
    built: int = 0


def end_job(writer: int, workspaces: Sequence[Workspace], verdicts: Verdicts) -> None:
    """Report the outcome of this process's job through a pipe, and end the job; the batch may be gone."""
    from pypto_build.rules.outcomes import outcomes_of

    outcomes = [outcome for workspace in workspaces for outcome in outcomes_of(workspace).replays]
    command = next((command for workspace in workspaces for command in workspace.progress.unexplained), "")
    built = sum(len(workspace.progress.renewed) for workspace in workspaces)
    status = verdicts.status or (0 if _is_done() else EXIT_STATUS["usage_error"])
    with suppress(OSError), open(writer, "wb") as stream:
        stream.write(msgspec.msgpack.encode(JobReport(status, verdicts.message, command, outcomes, built)))
    flush_streams()
    os._exit(0)


def _is_done() -> bool:
    """Return True if SCons processed all targets. If it did not, its log says why."""
    nodes = map(SCons.Node.Alias.default_ans.lookup, map(str, COMMAND_LINE_TARGETS))
    return all(node is not None and node.get_state() in (SCons.Node.executed, SCons.Node.up_to_date) for node in nodes)


def decode_report(data: bytes) -> JobReport | None:
    """Return the report of a job; None if the job ended before it reported."""
    try:
        return msgspec.msgpack.decode(data, type=JobReport) if data else None
    except msgspec.MsgspecError:
        return None
