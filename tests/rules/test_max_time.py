"""ReplayTest(max_time=): a test of the predicted time, which fails where all of the range is above."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from tests.rules.project import Project
from tests.rules.test_device_rules import built, replayed

__all__ = ["built", "replayed"]
_SCONSTRUCT = """from pypto_build.rules import pypto
env = Environment(tools=[pypto])
env.ReplayTest(name='t', artifact='build_output/_jit_row_blocks', max_time='1ms', chip='910B2')
"""


def test_a_test_fails_where_the_run_takes_longer_for_certain(built: Project, tmp_path: Path) -> None:
    built.write("SConstruct", _SCONSTRUCT)

    def words(*command: str) -> dict[str, str]:
        lines = [line.split() for line in built.quiet(*command).output.splitlines() if line.startswith("[test]")]
        return {name: word for _, word, name, *_ in lines}

    junit = tmp_path / "junit.xml"
    assert words("t", f"JUNIT={junit}") == {"t": "PASS", "t.speed": "PASS"}
    predicted = [each.get("value", "") for each in ElementTree.parse(junit).iterfind(".//property[@name='prediction']")]
    (kept,) = built.root.rglob("instruments/t.speed/findings.json")
    first = msgspec.json.decode(kept.read_bytes())["findings"][0]
    assert (first["rule"], first["level"]) == ("speed/max-time", "note")
    assert first["message"].startswith("910B2: ") and first["message"].endswith(", not surely more than 1000 us")
    assert predicted == [first["message"]]
    built.edit_file("SConstruct", "1ms", "0.5us")
    assert words("t", f"JUNIT={junit}") == {"t": "PASS", "t.speed": "FAIL"}
    (failure,) = ElementTree.parse(junit).iter("failure")
    assert "speed/max-time" in failure.get("message", "")
    assert "more than 0.5 us" in (failure.text or "")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("'1ms'", "'soon'", "ReplayTest: max_time='soon' is not a time; write one such as '180us' or '1.5ms'"),
        (
            "max_time='1ms', ",
            "",
            "ReplayTest: chip= has an effect only together with max_time=; add max_time= or leave out chip=",
        ),
    ],
)
def test_wrong_values_are_errors(built: Project, old: str, new: str, message: str) -> None:
    built.write("SConstruct", _SCONSTRUCT.replace(old, new))
    run = built.quiet("t")
    assert run.status == 2 and message in run.output
