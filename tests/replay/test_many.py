"""Many replays, in a row and at once, leave no process, descriptor or mapping, and do not mix up results."""

from __future__ import annotations

import os
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pypto_build.replay import Request, replay
from tests.replay.builder import Replayed, embedded_module
from tests.replay.tiny import COUNT, Tiny

PLUS_ONE = f"for (int i = 0; i < {COUNT}; ++i) y[i] = x[i] + 1;"
AT_ONCE = 50
IN_A_ROW = int(os.environ.get("PYPTO_TEST_REPLAYS", "60"))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return Tiny(tmp_path_factory.mktemp("many"), PLUS_ONE).build()


def _held() -> dict[str, int]:
    """Count the descriptors, children and shared mappings of this process; replays' shared memory has no names."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    shared = sum("/dev/zero" in line for line in Path("/proc/self/maps").read_text().splitlines())
    return {"descriptors": len(os.listdir("/proc/self/fd")), "children": len(children), "shared": shared}


def test_replays_in_a_row_leave_nothing(tiny: Tiny) -> None:
    """Run this many in a row; PYPTO_TEST_REPLAYS=1000 pytest tests/replay/test_many.py runs 1,000."""
    request = Request(tiny.artifact, tiny.out, embedded_module())
    for _ in range(5):
        replay(request, None)
    before, memory = _held(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert {replay(request, None).status for _ in range(IN_A_ROW)} == {"pass"}
    assert _held() == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 4096  # KiB


def test_replays_at_once_do_not_meet(tiny: Tiny, tmp_path: Path) -> None:
    """Give each replay its own data, so that a result in the wrong directory is noticed."""
    twins = []
    for number in range(AT_ONCE):
        twin = tiny.copy_to(tmp_path / str(number))
        twin.write_tensor("in/x", [float(number * 100 + i) for i in range(COUNT)])
        twin.write_tensor("out/y", [number * 100 + i + 1.0 for i in range(COUNT)])
        twins.append(twin)

    def run(twin: Tiny) -> Replayed:
        return twin.replay()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = list(pool.map(run, twins))
    assert [run.verdict.status for run in runs] == ["pass"] * AT_ONCE
