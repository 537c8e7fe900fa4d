"""Timelines are recorded after an uncounted round; of several, the median one is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pypto_build.diagnose.recorded.evidence import COLD, read_measured
from pypto_build.replay.timing import Timelines
from tests.diagnose.runs import RING1, timeline_document, write_json
from tests.replay.tiny import COUNT, Tiny

# Prints the number of the round, and works in every round.
COUNTED = f'static int round = 0; printf("round %d\\n", ++round); for (int i = 0; i < {COUNT}; ++i) y[i] = x[i] + 1;'

# Prints how many pages of its core's memory were first touched while it ran.
FAULTS = f"""
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    using Bytes = Tile<TileType::Vec, float, 128, 128>;
    Bytes tile;
    TASSIGN(tile, 0x10000);
    for (int i = 0; i < 128 * 128; i += 1024) static_cast<volatile float *>(tile.data())[i] = 0;
    getrusage(RUSAGE_THREAD, &after);
    printf("pages %ld\\n", after.ru_minflt - before.ru_minflt);
    for (int i = 0; i < {COUNT}; ++i) y[i] = x[i] + 1;
"""


def record(directory: Path, *lengths: float) -> Path:
    """Write rounds of two tasks; the second task takes the given time."""
    timelines = Timelines(directory)
    path = directory / "chip_swimlane_records.json"
    for number, length in enumerate(lengths, 1):
        write_json(path, timeline_document(((0, 0, 10, 20), (0, 1, 20, 20 + length)), ("aiv",)))
        timelines.collect(number)
    timelines.write()
    return path


def test_the_median_round_is_kept(tmp_path: Path) -> None:
    path = record(tmp_path, 30, 10, 50, 20, 40)
    assert json.loads(path.read_text(encoding="utf-8"))["aicore_tasks"][1][3:5] == [20, 50]
    assert json.loads((tmp_path / "timing.json").read_text(encoding="utf-8")) == {
        "warm": True,
        "rounds": 5,
        "shown": 1,
        "makespan": {"median": 40.0, "least": 20.0, "most": 60.0, "task": 0},
        "tasks": [
            {"median": 10.0, "least": 10.0, "most": 10.0, "task": RING1},
            {"median": 30.0, "least": 10.0, "most": 50.0, "task": RING1 + 1},
        ],
        "schema": 1,
    }
    assert read_measured(path).line == (
        "after a warm-up round, 5 rounds: makespan 40.0 us (20.0 to 60.0); shown is round 1, the median"
    )


def test_a_first_round_is_called_cold(tmp_path: Path) -> None:
    timelines = Timelines(tmp_path)
    path = tmp_path / "chip_swimlane_records.json"
    write_json(path, timeline_document(((0, 0, 10, 20),), ("aiv",)))
    timelines.collect(0)
    timelines.write()
    measured = read_measured(path)
    assert (measured.is_cold, measured.line) == (True, COLD)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"metadata": {"clock_freq_hz": 0}, "aicore_tasks": [[0,1,1,2,3]]}'])
def test_a_timeline_that_cannot_be_read_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "chip_swimlane_records.json"
    path.write_text(text, encoding="utf-8")
    timelines = Timelines(tmp_path)
    timelines.collect(1)
    timelines.write()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert path.read_text(encoding="utf-8") == text


def test_of_older_runs_nothing_is_said(tmp_path: Path) -> None:
    assert read_measured(tmp_path / "chip_swimlane_records.json").line == ""


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Return an artifact whose kernel prints how often it ran; built once."""
    return Tiny(tmp_path_factory.mktemp("counted"), COUNTED).build()


@pytest.mark.parametrize(
    "options, rounds, counts, warm",
    [
        ([], 1, 1, None),
        (["--swimlane", "4"], 2, 1, True),
        (["--swimlane", "1", "--rounds", "3"], 4, 3, True),
        (["--swimlane", "4", "--dump-args", "2"], 1, 1, False),
    ],
)
def test_what_is_recorded_comes_after_a_warm_up(
    counted: Tiny, options: list[str], rounds: int, counts: int, warm: bool | None
) -> None:
    run = counted.replay(*options)
    assert run.status == 0, run.stdout + run.stderr
    assert [line.removeprefix("| ") for line in run.stdout.splitlines() if line.startswith("| round ")] == [
        f"round {number}" for number in range(1, rounds + 1)
    ]
    assert run.verdict.rounds == counts
    timing = counted.out / "dfx_outputs" / "timing.json"
    recorded = json.loads(timing.read_text(encoding="utf-8")) if timing.exists() else {"warm": None, "rounds": counts}
    assert (recorded["warm"], recorded["rounds"]) == (warm, counts)


def test_a_mismatch_in_the_warm_up_is_the_verdict(tmp_path: Path) -> None:
    body = f"static int round = 0; for (int i = 0; i < {COUNT}; ++i) y[i] = x[i] + (round ? 1 : 2); ++round;"
    tiny = Tiny(tmp_path, body).build()
    run = tiny.replay("--swimlane", "4")
    assert (run.status, run.verdict.status, run.verdict.rounds) == (1, "mismatch", 1)
    assert read_measured(tiny.out / "dfx_outputs" / "chip_swimlane_records.json").is_cold


def test_no_page_of_a_core_appears_while_times_are_taken(tmp_path: Path) -> None:
    """Check this on the caller's thread too, whose core exists before times are requested."""
    tiny = Tiny(
        tmp_path, FAULTS, headers="#include <sys/resource.h>\n#include <pto/pto-inst.hpp>\nusing namespace pto;"
    )
    run = tiny.build().replay("--swimlane", "4", "--threads", "1")
    assert run.status == 0, run.stdout + run.stderr
    assert [line.removeprefix("| ") for line in run.stdout.splitlines() if line.startswith("| pages ")] == [
        "pages 0"
    ] * 2
