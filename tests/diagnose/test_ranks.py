"""The instruments on runs of several ranks: what is said of a run with known times, and of a real one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.deps import __main__ as deps
from pypto_build.diagnose.dump import __main__ as dump
from pypto_build.diagnose.hazards.ranks import Access, _split, ended_finding
from pypto_build.diagnose.lint import __main__ as lint
from pypto_build.diagnose.recorded.ranks import Notification, RanksRun, SignalWait, answer, critical_chain, messages_of
from pypto_build.diagnose.report import __main__ as report
from pypto_build.facts.faults import FaultKind
from pypto_build.replay.chips.records import DispatchRow
from pypto_build.replay.verdict import ErrorInfo, Verdict, write_verdict
from pypto_build.runtime.faults import FaultRecord
from tests.diagnose.browser import Browser, find_browser
from tests.diagnose.ranks_runs import write_ranks
from tests.diagnose.runs import dumped, write_dump

_EXAMPLE = Path(__file__).parents[2] / "examples" / "distributed" / "_jit_dist_allreduce"
_DRIVER = "orchestration/host_orch.py"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    write_ranks(tmp_path)
    return tmp_path


def _words(out: Path, *more: str) -> list[str]:
    return [str(_EXAMPLE), "--build-dir", str(out), "--platform", "a2a3", *more]


def _lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_the_whole_run_in_words(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert deps.main(_words(out)) == 0
    assert _lines(capsys) == [
        "2 ranks, 4 dispatches of 2 programs, domains: comm_d0 (2 ranks, 1,280 bytes)",
        "",
        "dispatches",
        "rank      program  after  begun us  took us  waited us  tasks  submitted at",
        "   0  d0  publish  -           0.0    100.0        0.0      1  orchestration/host_orch.py:35",
        "   0  d1  reduce   0/d0      110.0    350.0      277.0      1  orchestration/host_orch.py:50",
        "   1  d0  publish  -          10.0    290.0        0.0      1  orchestration/host_orch.py:35",
        "   1  d1  reduce   1/d0      310.0    140.0        1.0      1  orchestration/host_orch.py:50",
        "",
        "messages between ranks: 2",
        "from  to  count  waited us  longest us  of the longest: signal                kernels",
        "   0   1      1        1.0         1.0  comm_d0.arrived_buf+0 of rank 1 >= 1  sum_ranks -> sum_ranks",
        "   1   0      1      277.0       277.0  comm_d0.arrived_buf+4 of rank 0 >= 1  sum_ranks -> sum_ranks",
        "",
        "what decided when the run ended, 3 steps",
        "dispatch             from us  span us  because of",
        "rank 1 d0 'publish'     10.0    290.0  the run's beginning",
        "rank 1 d1 'reduce'     310.0     90.0  a host tensor of rank 1 d0 'publish'",
        "rank 0 d1 'reduce'     402.0     58.0  rank 1 d1 'reduce' notifies comm_d0.arrived_buf+4 of rank 0 >= 1, "
        "after a wait of 277.0 us",
    ]


@pytest.mark.parametrize(("expected", "kernel", "text"), [(1, "sum_ranks", "TWAIT("), (1, "none", "")])
def test_ranks_that_wait_for_each_other_are_told_at_the_line(expected: int, kernel: str, text: str) -> None:
    fields: dict[str, int | str] = {"program": "reduce", "kernel": kernel, "expected": expected}
    error = ErrorInfo("hang", "the ranks wait", fault=FaultRecord(FaultKind.RANKS_DEADLOCK, fields=fields))
    finding = ended_finding(_EXAMPLE, error)
    assert (finding.rule, finding.path) == (
        "hazards/hang",
        "next_levels/reduce/kernels/aiv/sum_ranks.cpp" if text else "",
    )
    assert (text in (_EXAMPLE / finding.path).read_text().splitlines()[finding.line - 1]) if text else finding.line == 0


def test_who_waited_when_it_hung(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_ranks(tmp_path, hung=True)
    assert deps.main(_words(tmp_path)) == 0
    lines = _lines(capsys)
    assert lines[5].split()[:7] == ["0", "d1", "reduce", "0/d0", "110.0", "did", "not"]
    assert "no messages on record: SWIMLANE=4 records them" in lines
    assert not any(line.startswith("what decided") for line in lines)
    assert lines[-3:] == [
        "waiting when the run ended",
        "rank  kernel     waits for                             it is",
        "   0  sum_ranks  comm_d0.arrived_buf+4 of rank 0 >= 1      0",
    ]


@pytest.mark.parametrize(
    ("choice", "places"),
    [
        ("0", ["0/0", "0/1"]),
        ("rank1/d0", ["1/0"]),
        ("1/1", ["1/1"]),
        ("1/d1,0,1", ["1/1", "0/0", "0/1", "1/0"]),
    ],
)
def test_a_rank_is_chosen(out: Path, choice: str, places: list[str]) -> None:
    chosen = RanksRun(_EXAMPLE, out).choose(choice)
    assert [f"{row.rank}/{row.index}" for row in chosen] == places


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("2", "RANK=2: rank 2 had no dispatch; the ranks with dispatches: 0, 1"),
        ("1/d2", "RANK=1/d2: rank 1 had 2 dispatches; name one dispatch with RANK=, of 1/d0, 1/d1"),
        (
            "first",
            "RANK=first: does not name a rank; write RANK=1 for all dispatches of the rank, RANK=1/d0 for the first",
        ),
        ("", "RANK=: does not name a rank; write RANK=1 for all dispatches of the rank, RANK=1/d0 for the first"),
    ],
)
def test_a_rank_that_there_is_not(out: Path, choice: str, message: str) -> None:
    with pytest.raises(ArtifactError) as error:
        RanksRun(_EXAMPLE, out).choose(choice)
    assert str(error.value) == message


def test_one_dispatch_is_looked_at_as_one_chip(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert deps.main(_words(out, "--rank", "0/d1")) == 0
    lines = _lines(capsys)
    assert lines[0] == "rank 0 d1 'reduce', submitted at orchestration/host_orch.py:50"
    assert "makespan 300.0 us: compute 100.0%" in "\n".join(lines)
    assert deps.main(_words(out, "--task", "0")) == 2
    assert deps.main(_words(out, "--rank", "0", "--task", "0")) == 2
    assert deps.main(_words(out, "--export", "html")) == 2
    assert capsys.readouterr().err.splitlines() == [
        "deps: TASK=0: names a task, and tasks are counted in each dispatch; name the dispatch too, such as RANK=0/d0",
        "deps: RANK=0: has 2 dispatches; name one: RANK=0/d0, RANK=0/d1",
        (
            "deps: EXPORT=html: draws only the graph of one dispatch; name the dispatch with RANK=; "
            "'scons report' draws all graphs"
        ),
    ]
    assert deps.main(_words(out / "rank0")) == 2
    assert "contains no records of ranks; replay with SWIMLANE=4 DEP_GEN=1 first" in capsys.readouterr().err


def test_exports(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert deps.main(_words(out, "--export", "trace")) == 0
    events = json.loads((out / "dfx_outputs" / "trace.json").read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {"rank 0", "rank 1"}
    flows = [(event["ph"], event["pid"], event["ts"]) for event in events if event.get("cat") == "message"]
    assert flows == [("s", 1, 120.0), ("f", 2, 405.0), ("s", 2, 400.0), ("f", 1, 402.0)] or flows == [
        ("s", 2, 400.0),
        ("f", 1, 402.0),
        ("s", 1, 120.0),
        ("f", 2, 405.0),
    ]
    # Kernels stand where their dispatch's clock puts them.
    kernels = {(event["pid"], event["ts"], event["dur"]) for event in events if event.get("tid") and "dur" in event}
    assert kernels == {(1, 20.0, 40.0), (1, 115.0, 300.0), (2, 19.0, 40.0), (2, 395.0, 40.0)}
    assert deps.main(_words(out, "--export", "dot")) == 0
    dot = (out / "dfx_outputs" / "ranks.dot").read_text()
    assert "  d0 -> d2;" in dot and '  d3 -> d2 [style=dashed, constraint=false, label="1"];' in dot


_ROW = DispatchRow(0, "p", 0, 0, 1, [], 0.0, 1.0)


def _told(*values: tuple[float, int, bool, int]) -> list[Notification]:
    return [Notification(_ROW, 1, "k", 64, value, sets, after, at) for at, value, sets, after in values]


def _wait(expected: int, comparison: int = 3, ended: float = 100.0) -> SignalWait:
    return SignalWait(_ROW, 1, "k", 64, expected, comparison, True, 0.0, ended)


def test_the_notification_that_let_a_wait_go_on() -> None:
    notifications = _told((10, 1, False, 1), (20, 1, False, 2), (30, 1, False, 3))
    for expected, at in ((1, 10), (2, 20), (3, 30)):
        notification = answer(notifications, _wait(expected))
        assert notification is not None and notification.at == at
    assert answer(notifications, _wait(0)) is None  # it always was
    assert answer(notifications, _wait(3, ended=25.0)) is None  # nobody had told by then
    # Credits that were given back, and told again.
    again = _told((10, 1, False, 1), (20, -1, False, 0), (30, 1, False, 1), (40, 1, False, 2))
    notification = answer(again, _wait(1))
    assert notification is not None and notification.at == 30
    # A value that is set says nothing of what was there before.
    notification = answer(_told((10, 7, True, 7), (20, 7, True, 7)), _wait(7, comparison=0))
    assert notification is not None and notification.at == 10


def test_the_chain_goes_over_messages(out: Path) -> None:
    run = RanksRun(_EXAMPLE, out)
    chain = critical_chain(run, messages_of(run))
    assert [(step.dispatch.place, step.begun, step.ended) for step in chain] == [
        ("rank1/d0", 10.0, pytest.approx(300.0)),
        ("rank1/d1", pytest.approx(310.0), 400.0),
        ("rank0/d1", 402.0, pytest.approx(460.0)),
    ]


def _dump(out: Path, values: dict[int, list[float]]) -> None:
    for rank, content in values.items():
        directory = out / "dfx_outputs" / f"rank{rank}" / "d1"
        write_dump(directory, [dumped(1 << 32, 2, content, role="output")])


def test_ranks_that_agree_and_those_that_do_not(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _dump(out, {0: [1.0, 2.0], 1: [1.0, 2.0]})
    assert dump.main(_words(out, "--kernel", "sum_ranks", "--arg", "total")) == 0
    lines = _lines(capsys)
    assert lines[0].split() == ["rank", "task", "kernel", "arg", "name", "role", "stage", "dtype", "shape", "content"]
    assert [line.split()[0] for line in lines[1:3]] == ["0/d1", "1/d1"]
    assert lines[-1] == "all 2 have the same bits"
    _dump(out, {1: [1.0, 2.5]})
    assert dump.main(_words(out, "--arg", "total")) == 0
    assert _lines(capsys)[-2:] == [
        "no two have the same bits",
        "1/d1: 1 of 2 elements differ from 0/d1, the first at 1",
    ]
    assert dump.main(_words(out, "--rank", "1/d1")) == 0
    assert "rank" not in _lines(capsys)[0].split()
    assert dump.main(_words(out, "--kernel", "sum")) == 2
    assert dump.main(_words(out, "--against", "x.pt")) == 2
    assert capsys.readouterr().err.splitlines() == [
        "dump: KERNEL=sum: no dumped task runs this kernel; dumped kernels: sum_ranks",
        "dump: AGAINST=x.pt: shows only one dispatch; name the dispatch: RANK=0/d0, RANK=0/d1, RANK=1/d0, RANK=1/d1",
    ]


# -- the driver ----------------------------------------------------------------------------------------------------


def _linted(tmp_path: Path, old: str, new: str, count: int = -1) -> list[str]:
    """Findings on the example with an edited driver, without their lines."""
    artifact = tmp_path / _EXAMPLE.name
    shutil.copytree(_EXAMPLE, artifact)
    driver = artifact / _DRIVER
    text = driver.read_text()
    assert old in text
    driver.write_text(text.replace(old, new, count))
    return [re.sub(r":\d+:", ":", line, count=1) for line in _last_line_s(artifact)]


def _last_line_s(artifact: Path) -> list[str]:
    return [finding.lines[0] for finding in lint.lint(artifact, "a2a3sim")]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'callables["publish"]', 'callables["publsh"]',
            "error: dispatches 'publsh', but next_levels/ has no such chip program [lint/driver-program]",
        ),
        (
            'buffers["arrived_buf"]', 'buffers["arived_buf"]',
            "error: buffers['arived_buf'] belongs to no domain [lint/driver-buffer]",
        ),
        (
            'tensors["x"][r, 0:256]', 'tensors["y"][r, 0:256]',
            "error: tensors['y'] is not a parameter in distributed_meta.json, and the driver does not create it "
            "[lint/driver-tensor]",
        ),
        (
            'tensors["total_r"]), TensorArgType.OUTPUT_EXISTING', 'tensors["total_r"]), TensorArgType.INPUT',
            "error: tensors['total_r'] is tagged INPUT, but 'reduce' writes it as 'total' [lint/driver-tag]",
        ),
        (
            'tensors["x_r"]), TensorArgType.INPUT', 'tensors["x_r"]), TensorArgType.OUTPUT_EXISTING',
            "error: tensors['x_r'] is tagged OUTPUT_EXISTING, but 'publish' reads it as 'x' [lint/driver-tag]",
        ),
        (
            "            _ta_0.add_scalar(scale)\n", "",
            "error: 'publish' is passed 0 scalars, but takes 1 [lint/driver-arguments]",
        ),
        (
            '_ta_0.add_tensor(make_tensor_arg(orch._worker, tensors["__comm_d0_ord"][r]), TensorArgType.INOUT)', "pass",
            "warning: 'publish' and 'reduce' use window buffer 'partial_buf', but no host tensor orders their "
            "dispatches on the same rank [lint/driver-token]",
        ),
        ("def dist_allreduce(", "def dist_allreduce((", "error: is not valid Python: invalid syntax [lint/driver]"),
    ],
)  # fmt: skip
def test_what_contradicts_the_driver(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert f"{_DRIVER}: {message}" in _linted(tmp_path, old, new)


def test_nothing_contradicts_the_examples() -> None:
    for example in sorted(_EXAMPLE.parent.glob("_jit_*")):
        assert _last_line_s(example) == [], example.name


def test_findings_on_chip_programs_name_their_place(tmp_path: Path) -> None:
    artifact = tmp_path / _EXAMPLE.name
    shutil.copytree(_EXAMPLE, artifact)
    kernel = artifact / "next_levels/reduce/kernels/aiv/sum_ranks.cpp"
    kernel.write_text(kernel.read_text().replace("pipe_barrier(PIPE_ALL);", ""))
    assert any(line.startswith("next_levels/reduce/kernels/aiv/sum_ranks.cpp:") for line in _last_line_s(artifact))


# -- the report ----------------------------------------------------------------------------------------------------


def _page(out: Path) -> Path:
    write_verdict(Verdict("pass", _EXAMPLE.name, "a2a3sim", "embedded", "distributed-2"), out / "verdict.json")
    assert report.main([*_words(out, "--chip", "publish=/p"), "--embedded", "/m.so"]) == 0
    return out / "report.html"


def _data(page: Path) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert match
    data: dict[str, Any] = json.loads(match[1])
    return data


def test_the_picture(out: Path) -> None:
    data = _data(_page(out))
    ranks = data["ranks"]
    assert ranks["bands"] == [
        {"name": "rank 0", "lanes": ["dispatch", "AIV_0"]},
        {"name": "rank 1", "lanes": ["dispatch", "AIV_0"]},
    ]
    bars = {(lane, start, duration, critical) for lane, _, _, start, duration, _, critical in ranks["bars"]}
    assert (0, 110.0, 350.0, 1) in bars and (0, 0.0, 100.0, 0) in bars and (3, 395.0, 40.0, 0) in bars
    arrows = [(one["fromLane"], one["at"], one["toLane"], one["ended"], one["critical"]) for one in ranks["messages"]]
    assert arrows == [(3, 400.0, 1, 402.0, True), (1, 120.0, 3, 405.0, False)]
    assert [one["waited"] for one in ranks["messages"]] == [277.0, 0.0]
    assert [title for title, *_ in ranks["tables"]] == [
        "Dispatches",
        "Messages from rank to rank",
        "What decided when the run ended",
    ]
    assert any("-m pypto_build.replay.chips " in text and "--chip publish=/p" in text for _, text in data["commands"])
    assert {source["path"] for source in data["sources"]} >= {_DRIVER, "next_levels/reduce/kernels/aiv/sum_ranks.cpp"}


def test_a_report_of_a_run_without_records(tmp_path: Path) -> None:
    assert _data(_page(tmp_path))["ranks"] is None


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.mark.skipif(find_browser() is None, reason="no Chromium on this machine")
def test_it_shows(browser: Browser, out: Path) -> None:
    page = _page(out)
    for width, dark in ((1280, False), (400, True)):
        browser.open(page, width, dark=dark)
        assert browser.errors == []
        assert browser.run("document.documentElement.scrollWidth") == width
        assert "Ranks (2)" in browser.run("[...document.querySelectorAll('main h2')].map((h) => h.textContent)")
        script = """(() => {
            const c = document.querySelector('#ranks-canvas');
            const pixels = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            const seen = new Set();
            for (let i = 0; i < pixels.length; i += 4) seen.add(`${pixels[i]},${pixels[i + 1]},${pixels[i + 2]}`);
            return seen.size;
        })()"""
        assert browser.run(script) >= 6
    # The arrow keys go through the messages.
    press = "document.querySelector('#ranks-canvas').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}))"
    browser.run(press)
    assert browser.run("document.querySelector('#ranks-readout').textContent") == (
        "rank 1 d1 'reduce' sum_ranks notifies comm_d0.arrived_buf+4 of rank 0 (>= 1) at 400.0 us; "
        "rank 0 d1 'reduce' sum_ranks waited 277.0 us, went on at 402.0 us"
    )


@pytest.mark.parametrize(
    ("position", "location"),
    [
        ("kernels/aic/k.cpp:7", ("next_levels/layer/kernels/aic/k.cpp", 7)),
        ("/x/next_levels/layer/kernels/aic/k.cpp:7", ("next_levels/layer/kernels/aic/k.cpp", 7)),
        ("/out/layer/spliced/kernels/aic/k.cpp:7", ("/out/layer/spliced/kernels/aic/k.cpp", 7)),
        ("k.so+0x40", ("", 0)),
    ],
)
def test_where_an_access_is(position: str, location: tuple[str, int]) -> None:
    """A spliced kernel is no file of the artifact: its path is told as it is."""
    row = DispatchRow(0, "layer", 0, 0, 1, [], 0.0, 1.0)
    access = Access(0, 0, 0, 4, 1, (0,), row, 0, "k", "TLOAD", position)
    assert _split(access) == location


@pytest.mark.parametrize("tool", [deps, dump])
def test_an_artifact_for_one_chip_is_rank_0(tool: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one = str(_EXAMPLE.parents[1] / "artifacts" / "_jit_vector_dag")
    assert tool.main([one, "--build-dir", str(tmp_path), "--rank", "1"]) == 2
    name = tool.__name__.split(".")[-2]
    assert capsys.readouterr().err == (
        f"{name}: RANK=1: the artifact runs on one chip, so its only rank is 0; leave out RANK=\n"
    )
    assert tool.main([one, "--build-dir", str(tmp_path), "--rank", "0"]) == 2
    assert "RANK" not in capsys.readouterr().err  # there are only no records
