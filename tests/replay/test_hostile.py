"""Hostile kernels end in time, with the right verdict, and leave nothing behind."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from pypto_build.artifact.pt import read_pt
from pypto_build.replay.verdict import EXIT_STATUS
from tests.replay.hostile import CASES, TELLING, WITHOUT, provoke, write_artifact
from tests.replay.tiny import Tiny

_OURS = ("verdict.json", "actual", "dfx_outputs", "planted")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return write_artifact(tmp_path_factory.mktemp("hostile"))


def _files(root: Path) -> dict[str, str]:
    """Return the contents below a directory, without the results of a run."""
    paths = {path.relative_to(root): path for path in sorted(root.rglob("*")) if path.is_file()}
    return {
        str(name): hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in paths.items()
        if name.parts[0] not in _OURS
    }


def _segments() -> set[str]:
    """Return the numbers of System V segments that have the size used by the cases."""
    lines = Path("/proc/sysvipc/shm").read_text().splitlines()
    return {line.split()[1] for line in lines if " 123457 " in line}


def _no_segments_stay(patience_s: float = 10.0) -> bool:
    """Return whether all current segments disappear in time; other processes may run such cases concurrently."""
    seen, give_up = _segments(), time.monotonic() + patience_s
    while seen and time.monotonic() < give_up:
        time.sleep(0.1)
        seen &= _segments()
    return not seen


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_hostile_kernel(tiny: Tiny, tmp_path: Path, number: int) -> None:
    _check(tiny.copy_to(tmp_path), number)


@pytest.mark.parametrize("missing", WITHOUT)
@pytest.mark.parametrize("name", TELLING)
def test_with_less(tiny: Tiny, tmp_path: Path, name: str, missing: str) -> None:
    """Run the same cases where the system allows less."""
    words = WITHOUT[missing]
    probe = [*words, "true"]
    if shutil.which(words[0]) is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip(f"{words[0]} does not work here")
    _check(tiny.copy_to(tmp_path), [case.name for case in CASES].index(name), words)


def _check(twin: Tiny, number: int, words: tuple[str, ...] = ()) -> None:
    case, before = CASES[number], _files(twin.out)
    run, tag = provoke(twin, number, words)
    error = run.verdict.error
    if error and "exit status 99" in error.message:
        pytest.skip("there is no process namespace, and the kernel would reach what else this user runs")
    assert (run.verdict.status, run.status) == (case.status, EXIT_STATUS[run.verdict.status]), run.printed
    assert case.message in (error.message if error else ""), run.printed
    assert run.verdict.artifact == "_jit_tiny"
    assert "Traceback" not in run.printed and "internal error" not in run.printed
    assert run.survivors == []
    assert run.seconds < float(case.timeout) + 15
    assert _files(twin.out) == before
    assert [name for name in os.listdir("/dev/shm") if tag in name] == []
    assert _no_segments_stay()
    assert not (twin.out / "planted" / "executed").exists()


def test_what_is_kept_is_what_was_compared(tiny: Tiny, tmp_path: Path) -> None:
    """Check that a writing thread has ended before outputs are compared and kept."""
    names = [case.name for case in CASES]
    twin = tiny.copy_to(tmp_path)
    run, _ = provoke(twin, names.index("thread that goes on writing"))
    kept = read_pt(twin.out / "actual" / "y.pt")
    values = memoryview(bytes(kept.data)).cast("f")
    assert (values[0], [item.actual for item in run.verdict.outputs[0].first]) == (-1, [-1])
