"""The task graph and the timeline: every vintage's form, who waits for whom and why, and where the time went."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.deps import __main__ as deps
from pypto_build.diagnose.recorded.critical_path import analyse, occupancy, read_timeline
from pypto_build.diagnose.recorded.graph import find_graph, read_graph
from pypto_build.diagnose.recorded.names import submissions
from tests.diagnose.runs import RING1, graph_document, timeline_document, write_json, write_vector_dag

_EXAMPLE = Path(__file__).parents[2] / "examples" / "artifacts" / "_jit_vector_dag"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_vector_dag(tmp_path / "dfx_outputs")
    return tmp_path


def _out(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, list[str]]:
    status = deps.main([str(word) for word in words])
    printed = capsys.readouterr()
    return status, (printed.out + printed.err).splitlines()


def test_one_task(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _out(capsys, _EXAMPLE, "--build-dir", run, "--task", "3") == (
        0,
        [
            "task 3 (1:3) kernel_mul",
            "  submitted at orchestration/vector_dag.cpp:74",
            "  ran from 40.0 to 50.0 us (10.0 us), data-wait of 5.0 us before it, on the critical path [simulated]",
            "  waits for",
            "    task 1 (1:1) kernel_shift",
            "      through d: arg 0 'a' float32[16] bytes 0..64 (that task was passed all of it to write)",
            "    task 2 (1:2) kernel_shift",
            "      through e: arg 1 'b' float32[16] bytes 0..64 (that task was passed all of it to write)",
            "  is waited for by",
            "    task 4 (1:4) kernel_add",
            "      through g: arg 0 'a' float32[16] bytes 0..64 (that task was passed all of it to write)",
            "  arguments",
            "    arg  name  kind             tensor  dtype    shape  bytes",
            "      0  a     INPUT            d       float32     16  0..64",
            "      1  b     INPUT            e       float32     16  0..64",
            "      2  out   OUTPUT_EXISTING  g       float32     16  0..64",
        ],
    )


def test_the_whole_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = _out(capsys, _EXAMPLE, "--build-dir", run)
    assert lines == [
        "task graph: 5 tasks, 6 edges, 4 levels, up to 2 tasks at a level",
        "kernels: kernel_add x2, kernel_shift x2, kernel_mul x1",
        "edges by rule: tensormap 6",
        "",
        "note: simulated platform: times are this machine's, not the NPU's; "
        "only their order and proportions mean something",
        "makespan 60.0 us: compute 81.7%, data-wait 18.3%, core-wait 0.0%, front-gap 0.0%; "
        "longest path by durations 49.0 us (81.7%)",
        "",
        "critical path, 4 tasks",
        "task                  start us  span us  compute  gap us  gap kind   slack us",
        "0 (1:0) kernel_add         0.0     10.0     10.0     0.0                  0.0",
        "1 (1:1) kernel_shift      15.0     20.0     20.0     5.0  data-wait       0.0",
        "3 (1:3) kernel_mul        40.0     10.0     10.0     5.0  data-wait       0.0",
        "4 (1:4) kernel_add        51.0      9.0      9.0     1.0  data-wait       0.0",
        "",
        "cores: busy and idle by cause, us",
        "core   rows  busy  share  submission  data  dispatch  start  tail",
        "AIV_0     4  37.0    62%         0.0  15.0       8.0    0.0   0.0",
        "AIV_1     1  20.0    33%         0.0  10.0       5.0    0.0  25.0",
        "all: busy 47.5%, submission 0.0%, data 20.8%, dispatch 10.8%, start 0.0%, tail 20.8%",
    ]


def test_hardware_is_not_called_simulated(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = _out(capsys, _EXAMPLE, "--build-dir", run, "--platform", "a2a3")
    assert not any("simulated" in line for line in lines)


def test_what_orders_two_tasks(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = [
        "task 1 (1:1) kernel_shift",
        "  -> task 3 (1:3) kernel_mul, through d: arg 0 'a' float32[16] bytes 0..64 "
        "(that task was passed all of it to write)",
        "  -> task 4 (1:4) kernel_add, through g: arg 0 'a' float32[16] bytes 0..64 "
        "(that task was passed all of it to write)",
    ]
    assert _out(capsys, _EXAMPLE, "--build-dir", run, "--task", "1", "--to", "4") == (0, expected)
    assert _out(capsys, _EXAMPLE, "--build-dir", run, "--task", "4", "--to", "1") == (0, expected)
    nothing = "nothing orders task 1 (1:1) kernel_shift and task 2 (1:2) kernel_shift"
    assert _out(capsys, _EXAMPLE, "--build-dir", run, "--task", "1", "--to", "2") == (1, [nothing])


def test_without_an_artifact_numbers_stand_for_names(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = _out(capsys, run / "dfx_outputs" / "deps.json", "--task", "1")
    assert lines[0] == "task 1 (1:1) func 1"
    assert "    task 0 (1:0) func 0" in lines


def test_no_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = f"deps: {tmp_path}: contains neither deps.json nor a timeline; replay with DEP_GEN=1 SWIMLANE=4 first"
    assert _out(capsys, tmp_path) == (2, [message])


def test_dot(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, (name,) = _out(capsys, _EXAMPLE, "--build-dir", run, "--export", "dot")
    assert name == str(run / "deps.dot")
    lines = Path(name).read_text().splitlines()
    assert f'  t{RING1 + 1} -> t{RING1 + 3} [label="d"];' in lines
    assert f'  t{RING1 + 2} [label="2 (1:2)\\nkernel_shift", fillcolor="#d1f0d9"];' in lines
    assert sum("->" in line for line in lines) == 6


def test_trace_file(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, (name,) = _out(capsys, _EXAMPLE, "--build-dir", run, "--export", "trace")
    document = json.loads(Path(name).read_text())
    assert document["otherData"]["note"].startswith("simulated platform")
    slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert [(event["name"], event["tid"], event["ts"], event["dur"]) for event in slices] == [
        ("0 (1:0) kernel_add", 0, 0.0, 10.0),
        ("2 (1:2) kernel_shift", 0, 12.0, 8.0),
        ("1 (1:1) kernel_shift", 1, 15.0, 20.0),
        ("3 (1:3) kernel_mul", 0, 40.0, 10.0),
        ("4 (1:4) kernel_add", 0, 51.0, 9.0),
    ]
    assert sum(event["ph"] == "s" for event in document["traceEvents"]) == 6


def test_slack_is_what_a_task_may_take_longer(run: Path) -> None:
    result = analyse(
        read_timeline(run / "dfx_outputs" / "chip_swimlane_records.json"), read_graph(run / "dfx_outputs" / "deps.json")
    )
    assert {task - RING1: slack for task, slack in result.slack.items()} == {0: 0.0, 1: 0.0, 2: 12.0, 3: 0.0, 4: 0.0}
    assert sum(step.stall + step.compute for step in result.observed) == result.makespan == 60.0


def test_a_core_that_was_taken_is_a_core_wait(tmp_path: Path) -> None:
    rows = ((0, 0, 0, 10), (0, 1, 12, 20))
    timeline = read_timeline(write_json(tmp_path / "t.json", timeline_document(rows, ("aiv",))))
    result = analyse(timeline, read_graph(write_json(tmp_path / "deps.json", graph_document((0, 0), (), {}))))
    assert [(step.kind, step.stall, step.compute) for step in result.observed] == [
        ("front-gap", 0.0, 10.0),
        ("core-wait", 2.0, 8.0),
    ]


def test_barriers_are_looked_through(tmp_path: Path) -> None:
    document = graph_document((0, 0, 0), ((0, 1, -1), (1, 2, -1)), {})
    document["tasks"][1]["kernel_ids"] = [-1, -1, -1]
    graph = read_graph(write_json(tmp_path / "deps.json", document))
    rows = ((0, 0, 0, 10), (1, 2, 15, 20))
    result = analyse(read_timeline(write_json(tmp_path / "t.json", timeline_document(rows, ("aiv", "aiv")))), graph)
    assert [step.kind for step in result.observed] == ["front-gap", "data-wait"]
    assert graph.order.label(RING1 + 2) == "1 (1:2)"
    assert graph.order.label(RING1 + 1) == "1:1"


def test_idle_time_is_divided_by_cause(tmp_path: Path) -> None:
    document = timeline_document(((0, 0, 0, 10), (1, 1, 40, 50)), ("aiv", "aiv"))
    document["aicpu_tasks"][1][2] = 35
    document["aicpu_orchestrator_phases"] = [
        [{"submit_idx": 1, "task_id": RING1 + 1, "start_cycles": 3, "end_cycles": 4}]
    ]
    timeline = read_timeline(write_json(tmp_path / "t.json", document))
    graph = read_graph(write_json(tmp_path / "deps.json", graph_document((0, 0), ((0, 1, -1),), {})))
    first, second = occupancy(timeline, graph)
    assert (first.busy, first.idle["tail"]) == (10.0, 40.0)
    assert second.idle == {"submission": 4.0, "data": 6.0, "dispatch": 25.0, "start": 5.0, "tail": 0.0}
    assert second.busy == 10.0


def test_timelines_were_in_microseconds_until_june(tmp_path: Path) -> None:
    task = {"task_id": 7, "func_id": 1, "core_id": 2, "core_type": "aiv", "start_time_us": 5.5, "end_time_us": 8.0}
    times = {"dispatch_time_us": 4.5, "finish_time_us": 8.5}
    result = read_timeline(write_json(tmp_path / "l2_perf_records.json", {"version": 1, "tasks": [task | times]}))
    (row,) = result.rows
    assert (row.core, row.task, row.start, row.end, row.dispatch, row.finish) == (2, 7, 1.0, 3.5, 0.0, 4.0)
    assert result.core_name(2) == "AIV_2"


@pytest.mark.parametrize(
    ("document", "tasks", "pairs"),
    [
        ({"version": 1, "edges": [[0, RING1], [RING1, RING1 + 1]]}, 3, 2),
        (
            {
                "version": 2,
                "tasks": [{"task_id": "0", "scope": "auto"}, {"task_id": str(RING1), "scope": "manual"}],
                "tensors": [
                    {"tensor_id": "5", "buffer_addr": "64", "version": 0, "dtype": "FLOAT32", "raw_shapes": [4, 4]}
                ],
                "edges": [{"pred": "0", "succ": str(RING1), "arg": 0, "source": "creator", "tensor_id": "5"}],
            },
            2,
            1,
        ),
    ],
)
def test_first_forms_of_the_graph(tmp_path: Path, document: dict[str, object], tasks: int, pairs: int) -> None:
    graph = read_graph(write_json(tmp_path / "deps.json", document))
    assert (len(graph.tasks), len(graph.pairs())) == (tasks, pairs)
    assert graph.order.label(RING1) == "1 (1:0)"
    assert [tensor.numel for tensor in graph.tensors.values()] == ([16] if pairs == 1 else [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON: .*; run again with DEP_GEN=1, because the run that wrote the file did not finish"),
        ("[]", r"is not a task graph: it contains no edges\[\]; run again with DEP_GEN=1"),
        ('{"edges": [{"pred": "1"}]}', r"edges\[0\]: succ is missing; run again with DEP_GEN=1"),
        (
            '{"edges": [[1, 2], [2, 1]]}',
            (
                r"its dependencies form a cycle through task 0 \(0:1\); run "
                r"again with DEP_GEN=1"
            ),
        ),
    ],
)
def test_damaged_graphs(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "deps.json"
    path.write_text(text)
    with pytest.raises(ArtifactError, match=f"{path}: {message}"):
        read_graph(path).topological()


def test_a_damaged_timeline(tmp_path: Path) -> None:
    path = write_json(tmp_path / "t.json", {"metadata": {}})
    with pytest.raises(
        ArtifactError, match=r"t.json: is not a timeline: clock_freq_hz is missing; run again with SWIMLANE=4"
    ):
        read_timeline(path)


def test_records_are_found_below_an_artifact(run: Path) -> None:
    assert find_graph(run) == run / "dfx_outputs" / "deps.json"


def test_submit_sites_of_the_examples() -> None:
    sites = submissions(_EXAMPLE / "orchestration" / "vector_dag.cpp").submits
    assert [(site.line, site.func_ids, [arg.expression for arg in site.tensors]) for site in sites] == [
        (51, (0,), ["ext_a", "ext_b", "c"]),
        (59, (1,), ["c", "d"]),
        (67, (1,), ["c", "e"]),
        (74, (2,), ["d", "e", "g"]),
        (81, (0,), ["g", "c", "ext_f"]),
    ]
