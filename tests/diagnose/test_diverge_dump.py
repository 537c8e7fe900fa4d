"""`diverge --against`: a recorded run is examined task by task on what it recorded."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from pypto_build.diagnose.diverge.__main__ import main
from pypto_build.diagnose.findings import Finding, read_report
from pypto_build.replay.request import Request
from pypto_build.replay.session import replay
from tests.replay.builder import build_artifact, embedded_module

ARTIFACT = Path(__file__).parents[2] / "examples" / "artifacts" / "_jit_vector_dag"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Build an artifact and dump all arguments of a run."""
    out = tmp_path / "out"
    build_artifact(ARTIFACT, out)
    assert replay(Request(ARTIFACT, out, embedded_module(), options={"dump_args": 2}), None).status == "pass"
    (out / "dfx_outputs" / "args_dump").rename(tmp_path / "dump")
    return out


def against(out: Path) -> tuple[int, tuple[Finding, ...]]:
    words = [str(ARTIFACT), "--platform", "a2a3sim", "--build-dir", str(out), "--embedded", str(embedded_module())]
    status = main([*words, "--against", str(out.parent / "dump"), "--json", str(out / "found.json")])
    return status, read_report(out / "found.json").findings


def change(dump: Path, number: int, stage: str, element: int, value: float) -> dict[str, object]:
    """Another value in the dump's `number`-th tensor of a stage."""
    entries = json.loads((dump / "args_dump.json").read_text())["args"]
    entry = [e for e in entries if e["kind"] == "tensor" and e["stage"].startswith(stage)][number]
    data = bytearray((dump / "args.bin").read_bytes())
    struct.pack_into("<f", data, entry["bin_offset"] + 4 * element, value)
    (dump / "args.bin").write_bytes(data)
    return dict(entry)


def test_a_recording_that_is_right(recorded: Path) -> None:
    assert against(recorded) == (0, ())


def test_a_task_that_wrote_something_else(recorded: Path) -> None:
    entry = change(recorded.parent / "dump", 1, "after", 130, 1234.5)
    status, findings = against(recorded)
    assert (status, len(findings)) == (1, 1)
    finding = findings[0]
    assert finding.rule == "diverge/kernel"
    assert finding.tasks == (1,)
    text = "\n".join(finding.lines)
    assert f"argument {entry['arg_index']} " in text
    assert "1 of 16384 elements differ, first at (1, 2)" in text
    assert "1234.5" in text


def test_no_dump(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(ARTIFACT), "--platform", "a2a3sim", "--build-dir", str(recorded), "--embedded", str(embedded_module())]
    assert main([*words, "--against", str(recorded)]) == 2
    assert capsys.readouterr().err == (
        f"diverge: AGAINST={recorded}: contains no dump of arguments; record one with DUMP=2\n"
    )
