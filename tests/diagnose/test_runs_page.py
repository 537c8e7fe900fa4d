"""The page on all runs."""

from __future__ import annotations

import re
from pathlib import Path

from pypto_build.diagnose.runs.__main__ import main
from pypto_build.diagnose.runs.page import runs_page
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
    assert re.search(r"mismatch</span></td>.*?rev1.*?1 &lt; 2", top)
    assert top.count('class="good"') == 1
    assert top.count('class="bad"') == 2
    flipped, rest = rest.split("<h2>What passes</h2>")
    assert "pass</span> → " in flipped
    assert flipped.count("<tr>") == 2
    assert "replay b" in rest
    assert "http" not in page.replace("http-equiv", "")


def test_no_runs() -> None:
    assert "the last never" in runs_page([], {}, "Runs")


def test_a_damaged_history_is_one_line(tmp_path: Path, capsys: object) -> None:
    (tmp_path / "h.sqlite").write_bytes(b"x" * 200)
    assert main(["--history", str(tmp_path / "h.sqlite"), "--html", str(tmp_path / "p.html")]) == 2
    assert not (tmp_path / "p.html").exists()
