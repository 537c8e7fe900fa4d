"""The recording as one page that loads nothing: every step with its sources, operands and elements beside PyTorch's."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

from pypto_build.diagnose.step.pipes import flags_at
from pypto_build.diagnose.step.scalars import scalars_at
from pypto_build.diagnose.step.session import KernelStep, Session, Stepped, place_text
from pypto_build.diagnose.step.text import matrix_lines, step_line, where_lines
from pypto_build.diagnose.template import fill
from pypto_build.diagnose.why.trace import SyncEvent

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
        title = f"{operand.role} {operand.name}  {place_text(operand.tile.operand)}"
        lines = [line.partition("; name a part")[0] for line in matrix_lines(now, contents)]
        shown["tiles"].append({"title": title, "lines": lines, "differs": bool(now.wrong(contents).any())})
    return shown
