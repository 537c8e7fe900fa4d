"""A cluster of this machine, and what its processes do."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def cluster(_cluster: Any) -> Any:
    """A scheduler and two workers on the loopback address, those that a test before has killed started anew."""
    _cluster.wait_for_workers(2, timeout=120)
    return _cluster


@pytest.fixture(scope="module")
def _cluster() -> Iterator[Any]:
    """For one file: its processes take a tenth of the machine while they wait."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, memory_limit=0, silence_logs=50
    ) as started:
        yield started


def at_work(part: str) -> list[int]:
    """Processes whose command line has this part."""
    started = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            line = Path("/proc", name, "cmdline").read_bytes()
        except OSError:
            continue
        started += [int(name)] if part.encode() in line else []
    return started


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait for it."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
