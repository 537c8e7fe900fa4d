"""The work of `step`: the recording, made in a process of its own, and the face that is asked for."""

from __future__ import annotations

import argparse
import html
import json
import sys
from pathlib import Path
from typing import Any

from pypto_build.artifact import ArtifactError
from pypto_build.artifact.errors import require_textual
from pypto_build.artifact.files import from_here, write_bytes
from pypto_build.diagnose.console import commands_in, one_of
from pypto_build.diagnose.diverge.lockstep import Limits
from pypto_build.diagnose.step.record import TaskRecording, read_recording, record
from pypto_build.diagnose.step.script import run_command
from pypto_build.diagnose.step.session import KernelStep, Session, Stepped, location_text
from pypto_build.diagnose.step.text import flags_at, list_lines, matrix_lines, scalars_at, step_line, where_lines
from pypto_build.diagnose.template import fill
from pypto_build.diagnose.why.trace import SyncEvent
from pypto_build.replay.reference.launch import Progress, in_child, open_launch

# The recording as one page that loads nothing: every step with its sources, operands and elements beside PyTorch's.

_HERE = Path(__file__).resolve().parent
#: Steps of a page, those with wrong results among the first; the terminal has all.
_MOST_STEPS = 400


def page(session: Session) -> str:
    """The whole file."""
    now = session.now
    title = f"Task {session.recording.task} {now.call.kernel}, step by step"
    data = {
        "title": title,
        "artifact": session.recording.artifact.name,
        "block": now.call.block,
        "blocks": session.recording.blocks,
        "path": now.own_path,
        "module": now.call.module,
        "source": now.source,
        "pto": now.module,
        "steps": [_step(session, now, step) for step in now.steps[:_MOST_STEPS]],
        "leftOut": max(0, len(now.steps) - _MOST_STEPS),
        "parting": now.parting,
        "notes": session.recording.notes,
    }
    # "<" never stands in it, so no text of the data can end the element.
    packed = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str).replace("<", "\\u003c")
    template = (_HERE / "page.html").read_text(encoding="utf-8")
    return fill(template, {"@TITLE@": html.escape(title), "@DATA@": packed})


def _step(session: Session, now: Stepped, step: KernelStep) -> dict[str, Any]:
    session.at = step.number
    shown: dict[str, Any] = {
        "label": step.label,
        "pipe": getattr(step.event, "pipe", ""),
        "line": step.line if step.path == now.own_path else 0,
        "place": f"{step.path}:{step.line}" if step.line else "",
        "pto": step.pto_line,
        "text": now.text(step),
        "order": isinstance(step.event, SyncEvent),
        "wrong": now.differs(step),
        "said": [line.strip() for line in list(where_lines(session))[1:]],
        "tiles": [],
        "scalars": [one.line for one in scalars_at(now, step.number) if one.value is not None],
        "flags": [
            f"{flag.source} -> {flag.target} EVENT_ID{flag.id}"
            for flag in flags_at(now, step.number)
            if flag.set >= 0 and flag.waited < 0
        ],
        "full": step_line(now, step).strip(),
    }
    for operand in now.operands(step):
        if operand.tile is None:
            continue
        contents = now.tile(operand.tile.operand, step.number, before=not operand.tile.writes)
        title = f"{operand.role} {operand.name}  {location_text(operand.tile.operand)}"
        lines = [line.partition("; name a part")[0] for line in matrix_lines(now, contents)]
        shown["tiles"].append({"title": title, "lines": lines, "differs": bool(now.wrong(contents).any())})
    return shown


def show(options: argparse.Namespace) -> int:
    """Run `step` with the options and return the exit status. Raises ArtifactError and RunFault."""
    if options.export:
        one_of("EXPORT", options.export, ("html",))
    if not (options.script or options.export) and sys.stdin.isatty() and sys.stdout.isatty():
        require_textual("a terminal of steps")
    script = commands_in(options.script) if options.script else None
    recording = recorded(options)
    for note in recording.notes:
        print(f"step: {note}", file=sys.stderr)
    session = Session(recording, Limits(options.rtol, options.atol), options.kernel)
    if options.at:
        session.goto(options.at)
    if options.export:
        path = options.build_dir / "step.html"
        write_bytes(path, page(session).encode())
        print(f"[step] {from_here(path)}")
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


def recorded(options: argparse.Namespace) -> TaskRecording:
    """The recording of the task that is asked for. Raises ArtifactError and RunFault."""
    built = (options.artifact, options.build_dir, options.embedded, options.platform)
    launch = open_launch(*built, options.data, options.seed, options.usual, options.numerics)
    checked = options.binaries or options.build_dir / "check"
    progress = Progress()
    task, block = int(options.task), options.block
    written = in_child(lambda: record(launch, checked, task, block, progress), progress, options.timeout)
    return read_recording(options.artifact, written)
