"""``PROFILE=1`` says where the time of a run went."""

from __future__ import annotations

import json
import re

from tests.rules.project import Project


def test_a_trace_of_all_processes(project: Project) -> None:
    profiled = project.replay("PROFILE=1")
    assert profiled.status == 0
    trace = json.loads((project.root / "build" / "profile.json").read_bytes())["traceEvents"]
    spans = {event["name"]: event for event in trace if event["ph"] == "X"}
    compiled, replayed = spans["run kernels/aiv/twice.o"], spans["run replays/default"]
    assert compiled["ts"] + compiled["dur"] <= replayed["ts"]
    tool, rules = spans["start Python and the replay"], spans["start Python, SCons and the rules"]
    assert tool["pid"] != rules["pid"]
    assert tool["ts"] < compiled["ts"] + compiled["dur"]  # the replay's process starts while the kernels are compiled
    assert rules["ts"] == min(event["ts"] for event in spans.values())
    assert {"declare", "runtime", "validate"} <= spans.keys()
    of_run = [spans[f"the run: {what}"] for what in ("load libraries", "tasks")]
    (child,) = {event["pid"] for event in of_run}
    assert child not in (tool["pid"], rules["pid"]) and child % (1 << 22) == tool["pid"]  # in a namespace it is 1
    loaded, tasks, whole = *of_run, spans["runtime"]
    assert loaded["ts"] + loaded["dur"] <= tasks["ts"]
    assert whole["ts"] <= tasks["ts"] and tasks["ts"] + tasks["dur"] <= whole["ts"] + whole["dur"]
    lines = re.findall(r"^\[profile\] .*$", profiled.output, re.MULTILINE)
    assert re.fullmatch(r"\[profile\] \d+\.\d{3} s; .*/build/profile\.json opens in ui\.perfetto\.dev", lines[0])
    assert not list((project.root / "build").glob(".trace*"))


def test_it_decides_about_nothing(project: Project) -> None:
    assert project.replay().status == 0
    run = project.replay("PROFILE=1")
    assert (run.status, run.actions) == (0, [])


def test_what_a_kernel_writes_into_the_trace_is_left_out(project: Project) -> None:
    text = """glob_t found;
    if (glob("TRACES", 0, nullptr, &found) != 0) abort();
    FILE *file = fopen(found.gl_pathv[0], "a");
    fputs("{\\n[1]\\n\\xff\\n{\\"name\\": 1}\\n", file);
    fclose(file);
    """
    project.edit(
        "kernels/aiv/twice.cpp", "#include", "#include <cstdio>\n#include <cstdlib>\n#include <glob.h>\n#include"
    )
    text = text.replace("TRACES", str(project.root / "build" / ".trace*"))
    source = project.artifact / "kernels/aiv/twice.cpp"
    head, brace, body = source.read_text().rpartition("kernel_entry(")
    source.write_text(f"{head}{brace}{body.replace('{', '{' + text, 1)}")
    run = project.replay("PROFILE=1")
    assert run.status == 0 and "[profile]" in run.output
    trace = json.loads((project.root / "build" / "profile.json").read_bytes())["traceEvents"]
    assert all(isinstance(event["name"], str) for event in trace)
