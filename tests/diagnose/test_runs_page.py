"""The page on all runs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from pypto_build.artifact.files import write_bytes
from pypto_build.artifact.outputs import mark_output
from pypto_build.diagnose.findings import Finding, Report, as_json, state_of
from pypto_build.diagnose.runs.__main__ import main, runs_page
from pypto_build.replay.history import History, Result, Run


def test_what_fails_stands_on_top_and_since_when(tmp_path: Path) -> None:
    history = History(tmp_path / "h.sqlite")
    for number, status in enumerate(("pass", "mismatch", "mismatch")):
        results = [Result("replay <a>", status, 1.0 + number, reason="1 < 2"), Result("replay b", "pass", cached=True)]
        history.add(Run(0.0, "replay", f"rev{number}", 2.0), results)
    assert main(["--history", str(history.path), "--html", str(tmp_path / "p.html")]) == 0
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    top, rest = page.split("<h2>What flipped</h2>")
    assert "1 of 2 fail" in top
    assert "replay &lt;a&gt;" in top
    assert "replay b" not in top
    assert re.search(r"mismatch</span></td><td[^>]*>1 &lt; 2</td>.*?rev1", top)
    assert top.count('class="good"') == 1
    assert top.count('class="bad"') == 2
    flipped, rest = rest.split("<h2>What passes</h2>")
    assert "pass</span> → " in flipped
    assert flipped.count("<tr>") == 2
    assert "replay b" in rest
    assert "http" not in page.replace("http-equiv", "")


def test_crashes_come_first_and_lead_to_their_reports(tmp_path: Path) -> None:
    history = History(tmp_path / "build" / "h.sqlite")
    history.path.parent.mkdir()
    (tmp_path / "build/a5sim/_jit_z").mkdir(parents=True)
    (tmp_path / "build/a5sim/_jit_z/report.html").write_text("")
    statuses = {"_jit_a": "mismatch", "_jit_b": "unchecked", "_jit_z": "runtime_error", "_jit_y": "hang"}
    history.add(Run(0.0, "replay", "", 2.0), [Result(f"replay {a} a5sim", s) for a, s in statuses.items()])
    assert main(["--history", str(history.path), "--html", str(tmp_path / "p.html")]) == 0
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert re.findall(r"<code>replay (\w+)", page.split("<h2>What flipped")[0]) == [
        "_jit_z",
        "_jit_y",
        "_jit_a",
        "_jit_b",
    ]
    assert '<code>replay _jit_z a5sim</code> <a href="build/a5sim/_jit_z/report.html">report</a>' in page
    assert page.count("<a href=") == 1


def test_what_triage_found_stands_beside_the_reason_until_the_artifact_is_edited(tmp_path: Path) -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "artifacts" / "_jit_vector_dag"
    root, output = tmp_path / "_jit_a", tmp_path / "build" / "a2a3sim" / "_jit_a"
    shutil.copytree(example, root)
    mark_output(output, root)
    finding = Finding("diverge/kernel", "computes <else>", "kernels/aiv/kernel_add.cpp", 61)
    report = Report("triage", "_jit_a", (Finding("x", "w", level="warning"), finding), state=state_of(root))
    write_bytes(output / "findings" / "triage.json", as_json(report))
    history, page = History(tmp_path / "build" / "h.sqlite"), tmp_path / "p.html"
    history.add(Run(0.0, "replay", "", 2.0), [Result("replay _jit_a a2a3sim", "mismatch", reason="1 < 2")])
    words = ["--history", str(history.path), "--html", str(page)]
    assert main(words) == 0
    assert "1 &lt; 2<br><code>kernels/aiv/kernel_add.cpp:61</code> computes &lt;else&gt;</td>" in page.read_text()
    (root / finding.path).write_text("// edited\n")
    assert main(words) == 0
    assert ">1 &lt; 2</td>" in page.read_text()


def test_one_run_is_one_number() -> None:
    page = runs_page([Run(0.0, "replay", "", 2.0, 1)], {"replay a": {1: Result("replay a", "pass", 0.77)}}, "Runs")
    assert "1 run, the last" in page
    assert ">0.77</td>" in page
    assert "<svg" not in page


def test_no_runs() -> None:
    assert "the last never" in runs_page([], {}, "Runs")


def test_a_damaged_history_is_one_line(tmp_path: Path, capsys: object) -> None:
    (tmp_path / "h.sqlite").write_bytes(b"x" * 200)
    assert main(["--history", str(tmp_path / "h.sqlite"), "--html", str(tmp_path / "p.html")]) == 2
    assert not (tmp_path / "p.html").exists()
