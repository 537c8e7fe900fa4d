"""``PROFILE=1`` says where the time of a run went."""

from __future__ import annotations

import json
import re

from tests.rules.project import Project


def test_a_trace_of_all_processes(project: Project) -> None:
    run = project.replay("PROFILE=1")
    assert run.status == 0
    trace = json.loads((project.root / "build" / "profile.json").read_bytes())["traceEvents"]
    spans = {event["name"]: event for event in trace if event["ph"] == "X"}
    compiled, replayed = spans["run kernels/aiv/twice.o"], spans["run replays/default"]
    assert compiled["ts"] + compiled["dur"] <= replayed["ts"]
    tool, rules = spans["start Python and the replay"], spans["start Python, SCons and the rules"]
    assert tool["pid"] != rules["pid"]
    assert tool["ts"] < compiled["ts"] + compiled["dur"]  # the replay's process starts while the kernels are compiled
    assert rules["ts"] == min(event["ts"] for event in spans.values())
    assert {"declare", "runtime", "validate"} <= spans.keys()
    lines = re.findall(r"^\[profile\] .*$", run.output, re.MULTILINE)
    assert re.fullmatch(r"\[profile\] \d+\.\d{3} s; .*/build/profile\.json opens in ui\.perfetto\.dev", lines[0])
    assert not list((project.root / "build").glob(".trace*"))


def test_it_decides_about_nothing(project: Project) -> None:
    assert project.replay().status == 0
    run = project.replay("PROFILE=1")
    assert (run.status, run.actions) == (0, [])
