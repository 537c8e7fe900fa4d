"""Order in which `-n` hands the tests to its workers: file by file, the slowest first.

A file stays with one worker, so that no worker waits for the compilations of another one's fixtures. No slow file is
left for the end, when the other workers are idle. A committed table has the slow files; `pytest -n 2 --write-seconds`
makes it anew. Without `-n`, and among the tests of one file, the order is pytest's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

TABLE = Path(__file__).with_name("seconds.txt")
_UNKNOWN_S = 20.0  # what the table does not have yet may be long


def read_table() -> dict[str, float]:
    """Seconds by file, as ``tests/ROOM/test_NAME.py``."""
    rows = (line.split() for line in TABLE.read_text(encoding="utf-8").splitlines())
    return {path: float(seconds) for seconds, path in rows}


def table_text(seconds: Mapping[str, float]) -> str:
    """The table's lines, the longest file first; those of less than half a second are one another's equals."""
    rows = sorted(((round(each), path) for path, each in seconds.items()), key=lambda row: (-row[0], row[1]))
    return "".join(f"{each:4d} {path}\n" for each, path in rows)


def file_of(nodeid: str) -> str:
    """The file that a test is in."""
    return nodeid.partition("::")[0]


def longest_first(items: list[pytest.Item]) -> None:
    """Sort by files, the longest first, and leave the order within a file."""
    seconds = read_table()
    rank = {path: (-seconds.get(path, _UNKNOWN_S), path) for path in {file_of(item.nodeid) for item in items}}
    items.sort(key=lambda item: rank[file_of(item.nodeid)])


def scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler that gives the files to the workers in their order."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


class Recorder:
    """Adds up how long the tests of each file took, and writes the table."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[file_of(report.nodeid)] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        kept = {path: each for path, each in read_table().items() if (TABLE.parents[1] / path).exists()}
        TABLE.write_text(table_text({**kept, **self.seconds}), encoding="utf-8")
