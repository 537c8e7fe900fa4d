"""The work of `step`: the recording, made in a process of its own, and the face that is asked for."""

from __future__ import annotations

import argparse
import sys

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.errors import require_textual
from pypto_build.artifact.files import write_bytes
from pypto_build.diagnose.console import one_of
from pypto_build.diagnose.diverge.compare import Limits
from pypto_build.diagnose.script import commands_in
from pypto_build.diagnose.step.record import TaskRecording, read_recording, record
from pypto_build.diagnose.step.script import run_command
from pypto_build.diagnose.step.session import Session
from pypto_build.diagnose.step.text import list_lines, where_lines
from pypto_build.replay.reference.launch import Progress, in_child, open_launch


def show(given: argparse.Namespace) -> int:
    """Run `step` with the options and return the exit status. Raises ArtifactError and RunFault."""
    if given.export:
        one_of("EXPORT", given.export, ("html",))
    if not (given.script or given.export) and sys.stdin.isatty() and sys.stdout.isatty():
        require_textual("a terminal of steps")
    script = commands_in(given.script) if given.script else None
    recording = recorded(given)
    for note in recording.notes:
        print(f"step: {note}", file=sys.stderr)
    session = Session(recording, Limits(given.rtol, given.atol), given.kernel)
    if given.at:
        session.goto(given.at)
    if given.export:
        from pypto_build.diagnose.step.page import page

        path = given.build_dir / "step.html"
        write_bytes(path, page(session).encode())
        print(f"[step] {path}")
        return 0
    if script is not None:
        _run(session, script)
    elif sys.stdin.isatty() and sys.stdout.isatty():
        from pypto_build.diagnose.step.terminal import StepApp

        StepApp(session).run()
    else:
        for line in (*list_lines(session), "", *where_lines(session)):
            print(line)
    return 0


def _run(session: Session, commands: list[str]) -> None:
    for command in commands:
        print(f"(step) {command}")
        try:
            for line in run_command(session, command):
                print(line)
        except ArtifactError as error:
            raise ArtifactError("", f"'{command}': {error}") from None


def recorded(given: argparse.Namespace) -> TaskRecording:
    """The recording of the task that is asked for. Raises ArtifactError and RunFault."""
    built = (given.artifact, given.build_dir, given.embedded, given.platform)
    launch = open_launch(*built, given.data, given.seed, given.usual, given.numerics)
    checked = given.binaries or given.build_dir / "check"
    progress = Progress()
    task, block = int(given.task), given.block
    told = in_child(lambda: record(launch, checked, task, block, progress), progress, given.timeout)
    return read_recording(given.artifact, told)
