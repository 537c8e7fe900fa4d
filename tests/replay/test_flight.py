"""The flight recorder of a replay whose process has ended, and `scons hang JIT=x`, which reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pypto_build.artifact import ArtifactError
from pypto_build.diagnose.hang import __main__ as hang
from pypto_build.replay.flight import FLIGHT, Flight, Kept, read_kept
from tests.replay.builder import build_artifact, of_any_core, replay
from tests.replay.tiny import Tiny


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tiny, str]:
    """Return a replay whose kernel kills its process; the parent has its recorded events."""
    tiny = Tiny(tmp_path_factory.mktemp("killed"), "raise(SIGKILL);")
    kernel = tiny.artifact / "kernels" / "aiv" / "step.cpp"
    kernel.write_text("#include <csignal>\n" + kernel.read_text())
    build_artifact(tiny.artifact, tiny.out)
    return tiny, replay(tiny.artifact, tiny.out).stdout


def test_it_outlives_a_process_that_is_killed(killed: tuple[Tiny, str]) -> None:
    tiny, output = killed
    kept = read_kept(tiny.out / "dfx_outputs" / FLIGHT)
    assert [event.what for event in kept.events][-1] == "kernel_begins"
    assert kept.fault is None
    assert of_any_core(output.splitlines()[-1]).endswith("core N: begins task 0 step")


def test_hang_reads_the_last_run(killed: tuple[Tiny, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny, _ = killed
    words = [str(tiny.artifact), "--build-dir", str(tiny.out)]
    assert hang.main(words) == 1
    out = capsys.readouterr().out
    assert "the last of each core:\n" in out
    assert "[hang/crash]" in out
    assert hang.main([str(tiny.artifact), "--build-dir", str(tmp_path)]) == 2
    assert "verdict.json: is missing, because no run was recorded here" in capsys.readouterr().err
    assert hang.main([]) == 2
    assert "name an artifact that ran here with JIT=, or logs of another run with LOG=" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "holds no events: Input data was truncated"),
        (b'{"schema": 2, "ranks": 1, "events": []}', "schema: version 2 is not supported, only 1"),
        (
            b'{"schema": 1, "ranks": 1, "events": [], "fault": {"kind": 999}}',
            "the recorded fault has the unknown kind 999",
        ),
    ],
)
def test_a_file_that_somebody_else_wrote(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / FLIGHT).write_bytes(text)
    with pytest.raises(ArtifactError, match=message):
        read_kept(tmp_path / FLIGHT)


def test_the_last_event_of_each_rank_is_shown_however_long_ago_it_was() -> None:
    """Show the last event of a dead rank, even if all other ranks have later events."""
    ranks = [0, 1, 1, 0, 0, 2, 2, 0, 2, 0, 2]
    events = [Kept(number, rank, 0, "begin", f"event {number}") for number, rank in enumerate(ranks)]
    shown = Flight(1, 3, events).lines(8)
    assert [line.rpartition(" ")[2] for line in shown] == ["2", "4", "5", "6", "7", "8", "9", "10"]
    assert [line.rpartition(" ")[2] for line in Flight(1, 1, events).lines(2)] == ["2", "9", "10"]
    assert len(Flight(1, 3, events).lines(99)) == 11


def test_what_a_core_still_is_at_is_shown_however_much_happened_since() -> None:
    events = [Kept(number, 0, -1, "submits", f"event {number}") for number in range(12)]
    events[1] = Kept(1, 0, 3, "waits_for_value", "event 1")
    events[2] = Kept(2, 0, 4, "kernel_returns", "event 2")
    shown = Flight(1, 1, events).lines(4)
    assert [line.rpartition(" ")[2] for line in shown] == ["1", "9", "10", "11"]
