"""The work of `step`: the recording, made in a process of its own, and the face that is asked for."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.files import read_text
from pypto_build.diagnose.console import one_of
from pypto_build.diagnose.diverge.compare import Limits
from pypto_build.diagnose.step.record import Recording, read_recording, record
from pypto_build.diagnose.step.script import commands_of, run_command
from pypto_build.diagnose.step.session import Session
from pypto_build.diagnose.step.text import list_lines, where_lines
from pypto_build.replay.reference.launch import Progress, in_child, open_launch


def show(given: argparse.Namespace) -> int:
    """What `given` asks for; the exit status. Raises ArtifactError and RunFault."""
    if given.export:
        one_of("EXPORT", given.export, ("html",))
    script = _script(given.script)
    recording = _recorded(given)
    for note in recording.notes:
        print(f"step: {note}", file=sys.stderr)
    session = Session(recording, Limits(given.rtol, given.atol), given.kernel)
    if given.at:
        session.goto(given.at)
    if given.export:
        return 0
    if script is not None:
        _run(session, script)
    else:
        for line in (*list_lines(session), "", *where_lines(session)):
            print(line)
    return 0


def _script(text: str) -> str | None:
    """The commands; None where none are given. A name of a file that is there is read."""
    if not text:
        return None
    path = Path(text)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):
        is_file = False
    if not is_file:
        return text
    try:
        return read_text(path)
    except OSError as error:
        raise ArtifactError(path, f"cannot be read: {error.strerror}", "name another file") from None


def _run(session: Session, script: str) -> None:
    for command in commands_of(script):
        print(f"(step) {command}")
        try:
            for line in run_command(session, command):
                print(line)
        except ArtifactError as error:
            raise ArtifactError("", f"'{command}': {error}") from None


def _recorded(given: argparse.Namespace) -> Recording:
    launch = open_launch(given.artifact, given.build_dir, given.embedded, given.platform, given.data, given.seed)
    checked = given.binaries or given.build_dir / "check"
    progress = Progress()
    task, block = int(given.task), given.block
    told = in_child(lambda: record(launch, checked, task, block, progress), progress, given.timeout)
    return read_recording(given.artifact, told)
